"""Every bound on what a peer can claim or fill, with its unit and its reason."""

from typing import Final

# Bytes. A gandy worker's HELLO fits with all the tasks that it may have.
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024

# Processors of one worker. OK has 16 bits for them, and 0xFFFF twice already means "send HELLO again".
MAX_SLOTS: Final = 0xFFFE

# Tasks that may wait on one worker for a slot.
MAX_AHEAD: Final = 1_000

# Characters in which a worker says what it is short of: a line for people.
MAX_PROBLEM: Final = 500

# Links whose TLS handshake is not done, and as many that ask to join. Each takes up to 50 KB, most of it OpenSSL's.
MAX_STRANGERS: Final = 500

# Links that have not said HELLO: a whole crew may come back at the same moment.
MAX_SILENT_LINKS: Final = 4_096

# Seconds from the beginning of a link to its HELLO. A plain v2 worker may wait for our OK(0) before it speaks.
HELLO_SECONDS: Final = 10.0

# Results in one batch.
MAX_BATCH: Final = 500

# Bytes of results in one batch, unless a single one has more.
MAX_BATCH_BYTES: Final = 4_000_000

# Batches of results that are sent and not yet safe. More would only make them smaller.
MAX_BATCHES_UNDER_WAY: Final = 2

# Bytes of what a Python function gives back that are kept with the attempt. More stays on the worker.
MAX_RESULT_BYTES: Final = 1_000_000

# Requests of a peer that wait for their turn, each as large as a payload may be. A gandy peer has one under way.
MAX_HELD_REQUESTS: Final = 4

# Former workers that a worker can name: so many times in a row it may be killed before it reaches the foreman.
MAX_FORMER: Final = 16

# The greatest sequence number: the header has 32 bits for it.
LAST_NUMBER: Final = 0xFFFF_FFFF

# The greatest integer of a store: SQLite has 64 bits with a sign for it.
LAST_INTEGER: Final = 2**63 - 1

# Bytes of a command's name: one byte on the wire tells how many there are.
MAX_COMMAND_NAME: Final = 255

# Commands of one worker.
MAX_COMMANDS: Final = 10_000

# Bytes of the names of all commands of one worker: a list of all workers must fit a payload.
MAX_OFFER_BYTES: Final = 256 * 1024

# Bytes of arguments or of a value in one frame. A frame that is longer would keep small calls waiting.
MAX_PIECE_BYTES: Final = 64 * 1024

# Bytes of the arguments of one call, or of one value: they are in memory at both ends.
MAX_VALUE_BYTES: Final = 1 << 30

# Tasks whose output is read by one request, and bytes of it: a worker opens a file for each while its tasks wait.
MAX_OUTPUTS: Final = 250
MAX_OUTPUTS_BYTES: Final = 4 << 20

# Jobs that one request forgets: one commit deletes them, and others wait for it.
MAX_FORGOTTEN: Final = 1_000

# Tasks that one request retracts: enough for a cancelled map in a few requests, little enough for one look.
MAX_RETRACTED: Final = 10_000

# Tasks that one message says have begun: a worker may have more, and sends several messages then.
MAX_BEGUN: Final = 1_000

# Calls that wait in a foreman for a free slot, and the bytes that they may have.
MAX_QUEUED_CALLS: Final = 200_000
MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024

# Attempts at one task. People may retry for ever, but not this often.
MAX_ATTEMPT: Final = (1 << 31) - 1

# Seconds, of a time or a duration: 31,000 years. Neither endless nor no number at all, and JSON can say it.
MAX_SECONDS: Final = 1e12

# Characters of the id or name of a worker, of a tag, and of other names: a row of a table has room for it.
MAX_NAME: Final = 255

# Characters of a job's name. Programs make some out of a whole command.
MAX_JOB_NAME: Final = 1_000

# Characters of a sentence for people: a note, an error. A page of rows must have room for some.
MAX_TEXT: Final = 16_384

# Characters of a traceback.
MAX_TRACE: Final = 1_000_000

# Characters of a folder's name: Linux takes 4,096 bytes.
MAX_PATH: Final = 4_096

# Tasks of one job: at two bytes each, 200 MB.
MAX_TASKS: Final = 100_000_000

# Tasks that one request names: the store touches each.
MAX_NAMED_TASKS: Final = 100_000

# Retries of a task that fails.
MAX_RETRIES: Final = 10_000

# Priority of a job, either way from 0.
MAX_PRIORITY: Final = 1_000_000_000

# Tags of one job or worker, jobs that one job waits for, and variables in an environment: each is looked at one by one.
MAX_TAGS: Final = 100
MAX_AFTER: Final = 10_000
MAX_VARIABLES: Final = 10_000

# Bytes of a job without its lines: no kernel runs a longer command, and a JOB carries it twice.
MAX_SPEC_BYTES: Final = 4_000_000

# Characters of one line of --each-line, and lines in one request: what fits a payload, where each has one character.
MAX_LINE: Final = 1_000_000
MAX_LINES: Final = 8_000_000

# Bytes of the pickled arguments of one task; larger ones are put apart. A client sends up to this many in one request.
MAX_INPUT_BYTES: Final = 262_144
MAX_INPUTS: Final = 10_000

# Bytes of the last words of a task, which go with its ending.
MAX_TAIL_BYTES: Final = 65_536

# Bytes of output or of large arguments in one piece.
MAX_READ_BYTES: Final = 4 << 20

# Rows in one answer, and bytes of them, unless a single one has more: an answer must fit a payload.
MAX_PAGE: Final = 10_000
MAX_PAGE_BYTES: Final = 4_000_000

# Requests of one link that are under way: one client must leave the store's time to others.
MAX_REQUESTS: Final = 16

# Requests of one link that wait for these, and bytes of them. Beyond, the link is not read.
MAX_WAITING_REQUESTS: Final = 1_000
MAX_WAITING_BYTES: Final = 1_000_000

# Jobs that one link watches, for events.
MAX_WATCHED: Final = 10_000

# Bytes of a key or a certificate in DER: RSA of 16,384 bits has 2,100.
MAX_KEY_BYTES: Final = 8_192

# Jobs whose shared part (the pickled function) a worker must remember: the foreman sends it once for each.
MAX_TOLD: Final = 1_000

# Jobs

# Characters of a shell line with {line}. Linux takes no longer argument, and reading one costs a microsecond each.
MAX_SHELL_LINE: Final = 131_071
