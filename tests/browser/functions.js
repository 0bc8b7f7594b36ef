// Laws of the page's functions, by name: what is and what should be. test_functions.py runs this in a page.
async (load) => {
  const {
    formatShort,
    formatRate,
    formatSeconds,
    formatLeft,
    formatBytes,
    formatPercent,
    formatAge,
    formatCommand,
    describeEnding,
  } = await load("/lib/format.js");
  const { parseRoute, formatRoute, linkCommand, linkJob, linkTask } = await load("/lib/router.js");
  const { cleanOutput, keepEnd, matches } = await load("/lib/text.js");
  const { TaskStates, unpack } = await load("/lib/states.js");
  const { Crew, compareWords, listReasons } = await load("/lib/crew.js");
  const { findHue } = await load("/lib/colours.js");
  const { roundUp, findNearest, listMarks } = await load("/ui/chart.js");
  const { locate } = await load("/ui/bars.js");
  const { planLane, findSpan } = await load("/ui/lanes.js");
  const { findKey, linkTrouble } = await load("/ui/trouble.js");
  const { dropCounts } = await load("/ui/explanation.js");
  const { planGrid, findTask, findCell, moveTask, findRows } = await load("/ui/grid.js");

  const states = new TaskStates();
  states.replace(Uint8Array.from([0, 0, 0, 0]));
  states.change(6, [
    [2, 3, 2],
    [6, 6, 3],
  ]);

  const job = (number, state) => ({ job: number, state, waiting: 4, held: false });
  const span = (ended) => ({ worker: "w", lane: 0, job: 1, task: 1, attempt: 1, state: "running", began: 1, ended });
  const call = (number, ended, lane = 0) => ({ worker: "w", lane, number, command: "ping", state: "running", began: 1, ended });
  const part = { at: 10, jobs: [], workers: [], commands: [], spans: [], calls: [], points: [], slots: 1, used: 1 };
  const crew = new Crew();
  crew.replace({ ...part, jobs: [job(1, "running")], spans: [span(null)], calls: [call(1, null), call(1, null, 1)] });
  crew.change({ ...part, at: 11, jobs: [job(2, "finished"), job(3, "waiting")], spans: [span(11)], points: [[11]] });
  crew.change({ ...part, at: 12, forgotten: [3], calls: [call(1, 12)] });

  const small = planGrid(7, 40, 1); // two columns
  const fine = planGrid(5000, 500, 2);
  const isFoundAgain = (task) => {
    const { column, row } = findCell(fine, task);
    return findTask(fine, (column + 0.5) * fine.cell, (row + 0.5) * fine.cell) === task;
  };
  const trouble = (failed) => ({ kind: "job", about: "7", text: `Job 7: ${failed} of 1,000 tasks failed.` });

  return {
    "counts fit a narrow place": [
      [0, 999, 9999, 12345, 3_500_000, 1e6].map(formatShort),
      ["0", "999", "9,999", "12 k", "3.5 M", "1 M"],
    ],
    "rare things have a rate, too": [
      [0, 0.001, 0.05, 3.14, 812].map(formatRate),
      ["0", "3.6/h", "3.0/min", "3.1", "812"],
    ],
    "durations have two units": [[125, 12_000, 90_000].map(formatSeconds), ["2 min 5 s", "3 h 20 min", "1 d 1 h"]],
    "short durations have one unit": [
      [5e-7, 8.5e-4, 0.85, 3.44].map(formatSeconds),
      ["1 µs", "850 µs", "850 ms", "3.4 s"],
    ],
    "durations are rounded before their unit is chosen": [[0.99999, 59.6].map(formatSeconds), ["1.0 s", "1 min"]],
    "time that is left is at least a second": [[null, 0.1, 61].map(formatLeft), ["", "1 s", "1 min 1 s"]],
    "sizes are decimal": [[0, 999, 1000, 158e6, 64e9].map(formatBytes), ["0 B", "999 B", "1.0 kB", "158 MB", "64 GB"]],
    "only all is 100 %": [
      [
        [0, 0],
        [1, 1000],
        [9999, 10_000],
        [3, 4],
      ].map((each) => formatPercent(...each)),
      ["0 %", "0.1 %", "99.9 %", "75 %"],
    ],
    "ages are rounded": [
      [formatAge(98, 100), formatAge(40, 100), formatAge(0, 100)],
      ["just now", "1 min ago", ""],
    ],
    "commands can be typed again": [formatCommand(["sh", "-c", "echo 'a b'"]), `sh -c 'echo '"'"'a b'"'"''`],
    "endings are in words": [
      [{ cause: "exit", exit_code: 3 }, { cause: null }].map(describeEnding),
      ["exit code 3", ""],
    ],

    "links name tasks": [
      parseRoute("#/jobs/7/tasks/3?stream=err"),
      { view: "task", job: 7, task: 3, query: { stream: "err" } },
    ],
    "unknown links are the overview": [
      ["", "#/nothing", "#/jobs/x"].map((hash) => parseRoute(hash).view),
      ["overview", "overview", "jobs"],
    ],
    "what is empty is not in a link": [formatRoute({ view: "overview", query: { at: 5, range: null } }), "#/?at=5"],
    "jobs and tasks have links": [
      [linkJob(7), linkTask(7, 3)],
      ["#/jobs/7", "#/jobs/7/tasks/3"],
    ],

    "output looks as a terminal leaves it": [
      cleanOutput("\u001b[31mred\u001b[0m\r\n10 %\r20 %\r\n\u0007done"),
      "red\n20 %\ndone",
    ],
    "titles of windows are no output": [cleanOutput("\u001b]0;title\u0007text"), "text"],
    "the end is kept in whole lines": [keepEnd("first\nsecond\nthird", 10), ["third", true]],
    "a filter means all of its words": [
      [matches("gpu NODE", "node7", ["gpu"]), matches("gpu x", "node7", "gpu")],
      [true, false],
    ],

    "states follow runs": [[...states.bytes], [0, 2, 2, 0, 0, 3]],
    "states are counted": [states.counts, [3, 0, 2, 1, 0, 0]],
    "tasks in a state are found": [
      [states.findNext("failed"), states.findNext("failed", 6)],
      [6, 0],
    ],
    "failure outweighs all others": [states.findHeaviest(0, 6), 3],
    "states are unpacked": [[...(await unpack("eJxjYGRiZgEAABkACw=="))], [0, 1, 2, 3, 4]],

    "jobs that go on are first": [crew.listJobs().map((each) => each.job), [1, 2]],
    "attempts end once": [
      [crew.running.size, crew.ended.length],
      [0, 1],
    ],
    "a call that ends is the one in its lane": [
      [crew.runningCalls.size, crew.endedCalls.map((each) => each.lane)],
      [1, [0]],
    ],
    "calls and attempts of a worker are drawn together": [crew.listSpans().get("w").length, 3],
    "a call is found by its command": [linkCommand("a b"), "#/calls?filter=a+b"],
    "points are added": [crew.points, [[11]]],
    "without workers, tasks wait for one": [listReasons(crew), [{ why: "worker", tasks: 4, jobs: [1] }]],
    "names are in the order of their numbers": [["w10", "w2"].sort(compareWords), ["w2", "w10"]],

    "no job looks like a failure": [
      Array.from({ length: 500 }, (_, each) => findHue(each)).every((hue) => hue >= 78 && hue <= 355),
      true,
    ],
    "axes end at round numbers": [[0, 0.7, 3.2, 238, 9000].map(roundUp), [1, 0.8, 4, 300, 10_000]],
    "the nearest point is found": [
      [findNearest([[1], [5], [9]], 6), findNearest([[1], [5]], 99), findNearest([], 1)],
      [1, 1, -1],
    ],
    "marks are at round times": [listMarks(0, 600, 5), [0, 120, 240, 360, 480]],
    "marks keep their distance": [listMarks(0, 120, 10, 60), [0, 60]],
    "values are located among bars": [
      [
        locate(
          [
            [0, 10, 3],
            [10, 20, 1],
          ],
          15,
        ),
        locate([[0, 10, 3]], 99),
      ],
      [1.5, 1],
    ],
    "lanes fit": [[1, 16, 1000].map(planLane), [13, 11, 2]],
    "the span under a pointer is found": [
      [findSpan([span(5)], 0, 6, 2)?.task, findSpan([span(5)], 0, 9, 2), findSpan([span(null)], 1, 6, 2)],
      [1, null, null],
    ],
    "trouble is the same with other numbers": [findKey(trouble(3)), findKey(trouble(412))],
    "trouble leads to where it is": [
      [linkTrouble(trouble(3)), linkTrouble({ kind: "store", about: "1" })],
      ["#/jobs/7", "#/foremen"],
    ],
    "explanations begin with a reason": [
      dropCounts(["Job 3 is running: 9 waiting, 1 running.", "All slots are taken."]),
      ["All slots are taken."],
    ],

    "a million tasks have a pixel each": [planGrid(1_000_000, 1242, 1).group, 1],
    "the largest job fits too": [planGrid(100_000_000, 1242, 1).group, 81],
    "few tasks are large": [
      [planGrid(1, 300, 1), small].map(({ columns, rows, cell }) => [columns, rows, cell]),
      [
        [1, 1, 16],
        [2, 4, 16],
      ],
    ],
    "beyond the last task is none": [
      [findTask(small, 20, 60), findTask(small, 35, 0), findTask(small, 20, 40)],
      [0, 0, 6],
    ],
    "arrow keys stay among the tasks": [
      ["ArrowDown", "ArrowUp", "End", "x"].map((key) => moveTask(small, 2, key)),
      [4, 2, 7, null],
    ],
    "cells and tasks belong together": [[1, 5, 99, 1234, 5000].every(isFoundAgain), true],
    "runs touch rows": [
      findRows({ columns: 10, rows: 100, group: 1 }, [
        [25, 31],
        [500, 501],
      ]),
      [2, 50],
    ],
  };
};
