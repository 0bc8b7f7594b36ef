// Builds and updates elements. Text is only ever set as text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children. A function is a listener, `true` an empty attribute, null is left out. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a drawing. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Change a text only if it is another one, so that nothing is laid out for nothing. */
export function setText(node, text) {
  const words = String(text);
  if (node.firstChild === null || node.childNodes.length > 1 || node.firstChild.nodeType !== 3)
    node.textContent = words;
  else if (node.firstChild.data !== words) node.firstChild.data = words;
}

export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function setHidden(node, isHidden) {
  if (node.hidden !== isHidden) node.hidden = isHidden;
}

/** Set a custom property, which style sheets use: a width in percent, say. */
export function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== String(value)) node.style.setProperty(name, value);
}

/** Rows of a table or list, each made once for its key, and then updated and put into order. */
export class Rows {
  constructor(parent, getKey, create) {
    this.parent = parent;
    this.getKey = getKey;
    this.create = create; // (item) => {node, update(item), close?()}
    this.rows = new Map();
  }

  update(items) {
    const gone = new Set(this.rows.keys());
    let before = this.parent.firstChild;
    for (const item of items) {
      const key = this.getKey(item);
      gone.delete(key);
      const row = this.rows.get(key) ?? this.add(key, item);
      row.update(item);
      if (row.node === before) before = before.nextSibling;
      else this.parent.insertBefore(row.node, before);
    }
    for (const key of gone) this.remove(key);
  }

  add(key, item) {
    const row = this.create(item);
    this.rows.set(key, row);
    return row;
  }

  remove(key) {
    const row = this.rows.get(key);
    row.node.remove();
    row.close?.();
    this.rows.delete(key);
  }
}
