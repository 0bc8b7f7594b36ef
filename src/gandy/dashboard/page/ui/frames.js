// One loop of animation frames for the whole page. It runs only while something wants to be drawn.

const waiting = new Set();
let isAsked = false;

/** Draw in the next frame. The same function is called once, however often it is asked for. */
export function draw(paint) {
  waiting.add(paint);
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(run);
}

function run() {
  isAsked = false;
  const paints = [...waiting];
  waiting.clear();
  for (const paint of paints) paint();
}

/** A canvas that fills its host and knows its size without asking for layout. `paint(context, width, height)`. */
export class Surface {
  constructor(host, paint) {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.context = this.canvas.getContext("2d");
    this.width = 0;
    this.height = 0;
    this.isVisible = true;
    this.paint = () => {
      if (!this.width || !this.isVisible) return;
      const scale = devicePixelRatio;
      this.context.setTransform(scale, 0, 0, scale, 0, 0);
      this.context.clearRect(0, 0, this.width, this.height);
      this.context.font = this.font ??= `11px ${getComputedStyle(host).fontFamily}`;
      paint(this.context, this.width, this.height);
    };
    host.append(this.canvas);
    this.sizes = new ResizeObserver(([entry]) => this.resize(entry.contentRect));
    this.sizes.observe(host);
    this.sight = new IntersectionObserver(([entry]) => this.show(entry.isIntersecting));
    this.sight.observe(host);
  }

  resize({ width, height }) {
    this.width = Math.floor(width);
    this.height = Math.floor(height);
    this.canvas.width = Math.round(this.width * devicePixelRatio);
    this.canvas.height = Math.round(this.height * devicePixelRatio);
    this.paint();
  }

  show(isVisible) {
    this.isVisible = isVisible;
    if (isVisible) this.redraw();
  }

  redraw() {
    draw(this.paint);
  }

  close() {
    this.sizes.disconnect();
    this.sight.disconnect();
  }
}
