"""Every bound on what a browser or a program can claim or fill at the dashboard, with its unit and its reason."""

from typing import Final

# Bytes of a request's line and headers: a browser sends about one kilobyte.
MAX_HEAD_BYTES: Final = 16 * 1024

# Bytes of a request's body: a job with tens of thousands of lines.
MAX_BODY_BYTES: Final = 1_000_000

# Connections that have not shown a token yet, each with a few kilobytes. The one that has waited longest is cut.
MAX_STRANGERS: Final = 128

# Connections that have shown one: a hundred browsers with six each, and some programs.
MAX_CONNECTIONS: Final = 1_000

# Browsers that have used a token. The one that asked for nothing for the longest time is forgotten.
MAX_SESSIONS: Final = 1_000

# Tokens that were printed, and that programs use since.
MAX_PROGRAMS: Final = 100

# Characters of a token that the user chose: with fewer, it can be guessed.
MIN_TOKEN: Final = 24

# Wrong tokens that are answered in a second, and at once; beyond that, the answer is that there are too many.
MAX_WRONG_TOKENS: Final = 10

# Requests of one session that are handled at once. A browser has six connections to one server.
MAX_SESSION_REQUESTS: Final = 16

# Requests of one session in a second, on average and at once; those beyond wait for their turn.
MAX_SESSION_RATE: Final = 100.0
MAX_SESSION_BURST: Final = 100

# Requests to the foreman that are under way: it handles 16 of one link at once, and streams need some.
MAX_UNDER_WAY: Final = 12

# Requests that wait for these. Beyond that, the answer is that the dashboard is busy.
MAX_WAITING: Final = 500

# Streams of events of one session, and of all.
MAX_SESSION_STREAMS: Final = 64
MAX_STREAMS: Final = 500

# Streams that follow the output of a task: each asks the foreman now and then.
MAX_FOLLOWED_OUTPUTS: Final = 32

# Jobs whose tasks' states are watched. Each takes a byte for each task.
MAX_WATCHED_JOBS: Final = 64

# Bytes that may wait for one browser before it misses changes; when it has read them, it gets everything anew.
MAX_UNSENT_BYTES: Final = 256 * 1024

# Writes of events in a second, to all browsers together: the work is bounded, however many look.
MAX_EVENT_WRITES: Final = 150.0

# Jobs in the object that describes the crew, attempts, and seconds since these ended.
MAX_CREW_JOBS: Final = 1_000
MAX_CREW_SPANS: Final = 5_000
MAX_SPAN_AGE: Final = 120.0

# Rows of jobs or tasks in one answer.
MAX_ROWS: Final = 1_000

# Attempts at one task in one answer, the last ones.
MAX_ATTEMPTS: Final = 1_000
