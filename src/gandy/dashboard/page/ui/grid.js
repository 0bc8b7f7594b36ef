// Where each task of a job is in a picture of all of them. Pure.

const MAX_ROWS_HEIGHT = 1_000; // CSS pixels: a picture that is higher would be scrolled more than it is read
const EASY_HEIGHT = 300; // up to here cells are as large as they can be
const LARGEST = 16; // CSS pixels of a cell
const WITH_GAPS = 8; // device pixels from which on cells have a gap between them

/**
 * The grid for so many tasks: `columns`, `rows`, `cell` (CSS pixels), `group` (tasks of one cell), `hasGaps`.
 * Cells are whole device pixels. If even one pixel for each task needs too much room, some tasks share one.
 */
export function planGrid(tasks, width, ratio = 1) {
  const pixels = Math.max(1, Math.floor(width * ratio));
  const fits = (size, limit) => Math.ceil(tasks / Math.floor(pixels / size)) * size <= limit * ratio;
  let size = Math.floor(LARGEST * ratio);
  while (size > 1 && !fits(size, size > 2 ? EASY_HEIGHT : MAX_ROWS_HEIGHT)) size -= 1;
  const most = pixels * MAX_ROWS_HEIGHT * ratio;
  const group = size > 1 ? 1 : Math.max(1, Math.ceil(tasks / most));
  const cells = Math.ceil(tasks / group);
  const columns = Math.max(1, Math.min(cells, Math.floor(pixels / size)));
  return { tasks, columns, rows: Math.ceil(cells / columns), cell: size / ratio, group, hasGaps: size >= WITH_GAPS };
}

/** The first task of the cell under a point, counting from 1; 0 if there is none. */
export function findTask(grid, x, y) {
  const column = Math.floor(x / grid.cell);
  const row = Math.floor(y / grid.cell);
  if (column < 0 || column >= grid.columns || row < 0 || row >= grid.rows) return 0;
  const task = (row * grid.columns + column) * grid.group + 1;
  return task <= grid.tasks ? task : 0;
}

/** The column and row of a task's cell. */
export function findCell(grid, task) {
  const index = Math.floor((task - 1) / grid.group);
  return { column: index % grid.columns, row: Math.floor(index / grid.columns) };
}

/** The task that an arrow key moves to. */
export function moveTask(grid, task, key) {
  const steps = {
    ArrowLeft: -grid.group,
    ArrowRight: grid.group,
    ArrowUp: -grid.columns * grid.group,
    ArrowDown: grid.columns * grid.group,
    PageUp: -10 * grid.columns * grid.group,
    PageDown: 10 * grid.columns * grid.group,
    Home: -Infinity,
    End: Infinity,
  };
  if (!(key in steps)) return null;
  const moved = task + steps[key];
  if (Math.abs(steps[key]) >= grid.columns * grid.group && Number.isFinite(moved) && (moved < 1 || moved > grid.tasks))
    return task;
  return Math.max(1, Math.min(grid.tasks, moved));
}

/** The rows of the picture that runs of tasks touch: `[first, last]`, or null. */
export function findRows(grid, runs) {
  let first = Infinity;
  let last = -1;
  for (const [begin, end] of runs) {
    first = Math.min(first, findCell(grid, begin).row);
    last = Math.max(last, findCell(grid, end).row);
  }
  return last < 0 ? null : [first, Math.min(last, grid.rows - 1)];
}
