"""Every bound on what a browser or a program can claim or fill at the dashboard, with its unit and its reason."""

from typing import Final

# Requests

# Bytes of a request's line and headers: a browser sends about one kilobyte.
MAX_HEAD_BYTES: Final = 16 * 1024

# Bytes of a request's body: a job with tens of thousands of lines.
MAX_BODY_BYTES: Final = 1_000_000

# Seconds from the first byte of a request, or the connection, to the end of its headers: a slow peer takes a place.
HEAD_SECONDS: Final = 10.0

# Seconds from there to the end of the body.
BODY_SECONDS: Final = 30.0

# Seconds between two requests: browsers keep connections for about as long.
IDLE_SECONDS: Final = 75.0

# Seconds for the peer to read a response, and that the peer of a stream may read nothing: a laptop may sleep.
WRITE_SECONDS: Final = 60.0
STALL_SECONDS: Final = 600.0

# Seconds to read what the peer still sends: else it would not get the last response.
LINGER_SECONDS: Final = 2.0

# Connections

# Connections that have not shown a token yet, each with a few kilobytes. The one that has waited longest is cut.
MAX_STRANGERS: Final = 128

# Connections that have shown one: a hundred browsers with six each, and some programs.
MAX_CONNECTIONS: Final = 1_000

# Tokens and sessions

# Characters of a token that the user chose: with fewer, it can be guessed.
MIN_TOKEN: Final = 24

# Tokens that were printed, and that programs use since.
MAX_PROGRAMS: Final = 100

# Wrong tokens that are answered in a second, and at once; beyond that, the answer is that there are too many.
MAX_WRONG_TOKENS: Final = 10

# Browsers that have used a token. The one that asked for nothing for the longest time is forgotten.
MAX_SESSIONS: Final = 1_000

# Requests of one session that are handled at once. A browser has six connections to one server.
MAX_SESSION_REQUESTS: Final = 16

# Requests of one session in a second, on average and at once; those beyond wait for their turn.
MAX_SESSION_RATE: Final = 100.0
MAX_SESSION_BURST: Final = 100

# The foreman

# Requests to the foreman that are under way: it handles 16 of one link at once, and streams need some.
MAX_UNDER_WAY: Final = 12

# Requests that wait for these. Beyond that, the answer is that the dashboard is busy.
MAX_WAITING: Final = 500

# Jobs whose tasks' states are watched. Each takes a byte for each task.
MAX_WATCHED_JOBS: Final = 64

# Streams

# Streams of events of one session, and of all.
MAX_SESSION_STREAMS: Final = 64
MAX_STREAMS: Final = 500

# Streams that follow the output of a task: each asks the foreman now and then.
MAX_FOLLOWED_OUTPUTS: Final = 32

# Bytes that may wait for one browser before it misses changes; when it has read them, it gets everything anew.
MAX_UNSENT_BYTES: Final = 256 * 1024

# Writes of events in a second, to all browsers together: the work is bounded, however many look.
MAX_EVENT_WRITES: Final = 150.0

# Answers

# Jobs in the object that describes the crew, attempts, and seconds since these ended: what a page shows at once.
MAX_CREW_JOBS: Final = 1_000
MAX_CREW_SPANS: Final = 5_000
MAX_SPAN_AGE: Final = 120.0

# Rows of jobs or tasks in one answer: a browser draws them in one go.
MAX_ROWS: Final = 1_000

# Attempts at one task in one answer, the last ones.
MAX_ATTEMPTS: Final = 1_000
