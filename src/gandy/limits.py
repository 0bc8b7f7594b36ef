"""Every bound on what a peer, a user or a disk can claim or fill, with its unit and its reason."""

from typing import Final

# Bytes of a payload. The HELLO of a gandy worker fits, with all the tasks that it may have.
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024

# Processors of one worker. OK has 16 bits for them, and 0xFFFF twice already means "send HELLO again".
MAX_SLOTS: Final = 0xFFFE

# Tasks that may wait for a slot on one worker.
MAX_AHEAD: Final = 1_000

# Characters of the text in which a worker reports what it is short of: a line for users.
MAX_PROBLEM: Final = 500

# Load of a machine: processes that run or wait to run. No kernel has room for so many.
MAX_LOAD: Final = 1e7

# Cores of a machine, with room for those of the next decades.
MAX_CORES: Final = 1 << 20

# Versions of gandy that one answer names: a crew that is changed machine by machine has two.
MAX_VERSIONS: Final = 20

# Links whose TLS handshake is not done, and as many that want to join. Each takes up to 50 KB, most of it in OpenSSL.
MAX_STRANGERS: Final = 500

# Links that have not sent HELLO: a whole crew may come back at the same moment.
MAX_SILENT_LINKS: Final = 4_096

# Seconds from the beginning of a link to its HELLO. A plain v2 worker may wait for our OK(0) before it sends one.
HELLO_SECONDS: Final = 10.0

# Results in one batch.
MAX_BATCH: Final = 500

# Bytes of results in one batch, unless a single one has more.
MAX_BATCH_BYTES: Final = 4_000_000

# Batches of results that are sent and not yet acknowledged. More would only make each smaller.
MAX_BATCHES_UNDER_WAY: Final = 2

# Bytes of a Python function's result that are kept with the attempt. A larger result stays on the worker.
MAX_RESULT_BYTES: Final = 1_000_000

# Requests of a peer that wait for their turn, each as large as a payload may be. A gandy peer has one in flight.
MAX_HELD_REQUESTS: Final = 4

# Former workers that a worker can name: how often in a row it may be killed before it reaches the foreman.
MAX_FORMER: Final = 16

# The greatest sequence number: the header has 32 bits for it.
LAST_NUMBER: Final = 0xFFFF_FFFF

# The greatest integer of a store: SQLite has 64 bits with a sign for it.
LAST_INTEGER: Final = 2**63 - 1

# Bytes of a command's name: its length is one byte on the wire.
MAX_COMMAND_NAME: Final = 255

# Commands of one worker.
MAX_COMMANDS: Final = 10_000

# Bytes of the names of all commands of one worker: a list of all workers must fit a payload.
MAX_OFFER_BYTES: Final = 256 * 1024

# Bytes of arguments or of a value in one frame. A longer frame would keep small calls waiting.
MAX_PIECE_BYTES: Final = 64 * 1024

# Bytes of the arguments of one call, or of one value: they are in memory at both ends.
MAX_VALUE_BYTES: Final = 1 << 30

# Tasks whose output one request reads, and bytes of it: a worker opens a file for each while its tasks wait.
MAX_OUTPUTS: Final = 250
MAX_OUTPUTS_BYTES: Final = 4 << 20

# Jobs that one request forgets: one commit deletes them, and other requests wait for it.
MAX_FORGOTTEN: Final = 1_000

# Tasks that one request retracts: enough to cancel a map with a few requests, few enough to handle at once.
MAX_RETRACTED: Final = 10_000

# Tasks that one message reports as begun. A worker that has more sends several messages.
MAX_BEGUN: Final = 1_000

# Calls that wait in a foreman for a free slot, and bytes of their arguments.
MAX_QUEUED_CALLS: Final = 200_000
MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024

# Attempts at one task. Users may retry for ever, but not this often.
MAX_ATTEMPT: Final = (1 << 31) - 1

# Seconds, of a moment or a duration: 31,000 years. Excludes infinity and NaN, which JSON does not have.
MAX_SECONDS: Final = 1e12

# Characters of the id or name of a worker, of a tag, and of other names: they are shown in tables.
MAX_NAME: Final = 255

# Characters of a job's name. Some programs use a whole command as the name.
MAX_JOB_NAME: Final = 1_000

# Characters of a text for users: a note, an error. Several must fit on a page of rows.
MAX_TEXT: Final = 16_384

# Characters of a traceback.
MAX_TRACE: Final = 1_000_000

# Characters of a folder's name: Linux takes 4,096 bytes.
MAX_PATH: Final = 4_096

# Tasks of one job: at two bytes each, 200 MB.
MAX_TASKS: Final = 100_000_000

# Tasks that one request names: the store updates each of them.
MAX_NAMED_TASKS: Final = 100_000

# Retries of a task that fails.
MAX_RETRIES: Final = 10_000

# Priority of a job, either way from 0.
MAX_PRIORITY: Final = 1_000_000_000

# Tags of one job or worker, jobs that one job waits for, and variables in an environment: the foreman checks each.
MAX_TAGS: Final = 100
MAX_AFTER: Final = 10_000
MAX_VARIABLES: Final = 10_000

# Jobs that one job follows task by task: the foreman looks at each of their tasks, perhaps a million of each.
MAX_FOLLOWED: Final = 8

# Bytes of a job without its lines: no kernel runs a longer command, and a JOB carries it twice.
MAX_SPEC_BYTES: Final = 4_000_000

# Characters of one line of --each-line, and lines in one request: what fits a payload if each line has one character.
MAX_LINE: Final = 1_000_000
MAX_LINES: Final = 8_000_000

# Bytes of the pickled arguments of one task; larger ones are uploaded separately. Inputs of tasks in one request.
MAX_INPUT_BYTES: Final = 262_144
MAX_INPUTS: Final = 10_000

# Bytes of the end of a task's standard error, which are sent with its ending.
MAX_TAIL_BYTES: Final = 65_536

# Bytes of output or of large arguments in one piece.
MAX_READ_BYTES: Final = 4 << 20

# Rows in one answer, and bytes of them, unless a single one has more: an answer must fit a payload.
MAX_PAGE: Final = 10_000
MAX_PAGE_BYTES: Final = 4_000_000

# Requests of one link that are handled at once: one client must not take all of the store's time.
MAX_REQUESTS: Final = 16

# Requests of one link that wait for these, and bytes of them. Beyond that, the link is not read.
MAX_WAITING_REQUESTS: Final = 1_000
MAX_WAITING_BYTES: Final = 1_000_000

# Jobs whose events one link receives.
MAX_WATCHED: Final = 10_000

# Bytes of a key or a certificate in DER: an RSA key of 16,384 bits takes 2,100.
MAX_KEY_BYTES: Final = 8_192

# Jobs whose shared part (the pickled function) a worker must remember: the foreman sends it once for each job.
MAX_SHARED_SENT: Final = 1_000

# Jobs

# Characters of a shell line with {line}. Linux takes no longer argument, and parsing costs a microsecond for each.
MAX_SHELL_LINE: Final = 131_071

# Calls

# Seconds that patient calls wait while no worker offers their command: a crew may be started in any order.
MAX_PATIENCE: Final = 3600.0

# Bytes that a client or a worker may grant in advance: the sum must not overflow, and no value is longer.
MAX_CREDIT: Final = 1 << 30

# Keys and invitations

# Keys of one foreman: each is a few hundred bytes, in memory and on disk.
MAX_KEYS: Final = 10_000

# Characters of a key's name: a certificate has no room for more.
MAX_KEY_NAME: Final = 64

# Invitations that are open, seconds that one may stay open, and keys that can be made with one.
MAX_INVITATIONS: Final = 1_000
MAX_INVITATION_SECONDS: Final = 366 * 86_400.0
MAX_INVITATION_USES: Final = 10_000

# Addresses that a request for an invitation names: a machine that joins tries each in turn.
MAX_TOKEN_ADDRESSES: Final = 8

# Addresses of this machine in a token, by kind: trying one that cannot be reached takes seconds.
MAX_TOKEN_IPV4: Final = 3
MAX_TOKEN_IPV6: Final = 2

# Addresses of its foreman that a peer remembers: a foreman may move.
MAX_FOREMAN_ADDRESSES: Final = 8

# Characters of a host name, as in the DNS.
MAX_HOST: Final = 253

# Peers that have not shown a key

# Bytes that a peer may send before its TLS handshake is done; ours need 2 KB.
MAX_STRANGE_BYTES: Final = 16 * 1024

# Addresses whose failures are counted, a hundred bytes each. Beyond that, the one that failed longest ago is dropped.
MAX_COUNTED_SOURCES: Final = 10_000

# Failures of one address before its links are refused: a whole crew behind one address may have old keys, once.
MAX_FAILURES: Final = 200

# Crews with many foremen

# Shards of one crew: every worker has a link to each.
MAX_SHARDS: Final = 256

# Addresses of one foreman: a machine has a few, and a peer tries each in turn.
MAX_PLACES: Final = 8

# Links and requests

# Bytes that may wait in our memory for a peer that does not read. Beyond that, the link is cut.
MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024

# Keys of submitted jobs that a foreman has in memory, a hundred bytes each: if a request comes twice, over a link that
# broke and over the next one, it does so within seconds.
MAX_SUBMISSIONS: Final = 10_000

# Jobs whose lines one client may be sending in parts at the same time.
MAX_UPLOADS: Final = 16

# Seconds by which the time of a job may have passed when its request arrives: requests take time to arrive.
MAX_LATE_SECONDS: Final = 1.0

# Seconds from now to the time of a job: a later time is a mistake.
MAX_WAIT_SECONDS: Final = 10 * 365 * 86_400.0

# States that a request for a list names: more than exist.
MAX_NAMED_STATES: Final = 16

# Bytes of output in one piece: other tasks wait while a worker reads it.
MAX_OUTPUT_PIECE_BYTES: Final = 1 << 20

# Workers that one page of output is read from: the part of each must be worth its round trip.
MAX_PAGE_WORKERS: Final = 64

# Viewers

# Requests that one shard sends updates about the crew to.
MAX_VIEWERS: Final = 1_000

# Requests of one link that get updates about the crew or a job: a page for each of many jobs may be open.
MAX_VIEWS: Final = 100

# Jobs, and commands, that one update about the crew shows. What is beyond that is in the list of jobs, page by page.
MAX_GLANCES: Final = 1_000

# Attempts that one update shows as they begin, and as they end: ten updates a second are more than a person can read.
# Of those that viewers saw running, none is left out; an update has as many as it has jobs.
MAX_SPANS: Final = 200

# Calls that one update shows as they begin, and as they end, besides those that viewers saw running.
MAX_CALL_SPANS: Final = 100

# Characters of a job's title: a column of a table.
MAX_TITLE: Final = 80

# Buckets of a histogram: four for each power of two, of numbers with 63 bits.
MAX_BUCKETS: Final = 256

# Tasks whose states are compressed into one part of an update, and the bytes that these may take: zlib adds a little
# to what cannot be compressed.
MAX_STATES: Final = 1 << 20
MAX_STATES_BYTES: Final = MAX_STATES + 1024

# Runs of tasks in one update. If more have changed, all states are sent anew.
MAX_RUNS: Final = 10_000

# Bytes that may wait for a viewer before updates are left out; when it has read them, it gets everything anew.
MAX_VIEWER_BYTES: Final = 256 * 1024

# History

# Jobs and workers that one sample has with their names. What is beyond that is in its sums.
MAX_SAMPLED: Final = 100

# Samples that a store keeps: made every ten seconds, two days of a crew that is always busy; every five minutes, a
# month; every hour, two years. A crew that rests makes none, so that they last longer.
MAX_SAMPLES: Final = 17_280
MAX_KEYFRAMES: Final = 8_640
MAX_HOURLY: Final = 17_520

# Bytes of the samples of each of these three kinds. In PostgreSQL: of one of nine parts, for all shards together.
MAX_HISTORY_BYTES: Final = 32_000_000

# Bytes that must be free on the disk of an SQLite store for samples to be written: the last room is for jobs.
MIN_HISTORY_ROOM: Final = 16_000_000

# Points of one answer about the past, and samples that it is made of: each takes a few microseconds of the foreman.
MAX_POINTS: Final = 5_000
MAX_READ_SAMPLES: Final = 5_000

# What a foreman keeps

# Bytes of the audit log before it is renamed and replaces the older one.
MAX_AUDIT_BYTES: Final = 50_000_000

# Refusals that the audit log records in one period, and characters of one value: a few peers must not fill the file.
MAX_AUDIT_REFUSALS: Final = 20
MAX_AUDIT_TEXT: Final = 500

# Characters of a line of the audit: a dozen values, with characters that JSON escapes.
MAX_AUDIT_LINE: Final = 65_536

# Lines of the audit that wait while the crew's database is away, a few megabytes, and those that are sent at a time.
MAX_AUDIT_WAITING: Final = 10_000
MAX_AUDIT_BATCH: Final = 500

# Bytes of inputs that are read ahead, and of those that were just added: most of them are sent to workers next.
MAX_CACHED_INPUT_BYTES: Final = 32_000_000
MAX_NEW_INPUT_BYTES: Final = 16_000_000

# Workers and what they run

# Bytes of one frame of a call: two names with their lengths, a time, and a piece of arguments or of a value.
MAX_CALL_PAYLOAD: Final = 2 * (MAX_COMMAND_NAME + 1) + 8 + MAX_PIECE_BYTES

# Bytes of a peer that are kept while the crew's database is asked about its key: those that came with the handshake.
MAX_EARLY_BYTES: Final = 256 * 1024

# Characters of a token, and bytes of a request or an answer about joining: unknown peers send them.
MAX_TOKEN: Final = 4_096
MAX_JOIN_BYTES: Final = 4_096

# Bytes of a pickled function task or result: a slot process holds it in memory, and the foreman keeps it in a file.
MAX_PICKLE_BYTES: Final = 2 << 30

# Bytes of the note in which a slot process describes how a task ended.
MAX_NOTE_BYTES: Final = 1 << 16

# Characters of the description of an exception: it is shown in tables, on one line.
MAX_ERROR_LINE: Final = 500

# Causes of an exception that are sent as objects. The printed traceback has all of them.
MAX_CAUSES: Final = 10

# Steps to the part of a value that cannot be pickled. A longer path would not help the user.
MAX_CULPRIT_DEPTH: Final = 8

# Bytes of output that a worker keeps, unless its user gives another number.
MAX_OUTPUT_BYTES: Final = 10_000_000_000

# Shell tasks that have ended and are not reported yet: until then, each has files in the folder of running tasks.
MAX_UNREPORTED: Final = 32

# The greatest number that is appended to the name of a log if older logs exist, as in the original.
MAX_LOG_NUMBER: Final = 10_000

# Clients

# Lanes of one worker in which a viewer shows what runs: more slots than a person looks at one by one.
MAX_LANES: Final = 1_024

# Updates about a crew or a job that a client has not looked at yet: several seconds of them.
MAX_WAITING_UPDATES: Final = 100

# Names of commands that a client keeps encoded. A program may make up any number of names.
MAX_ENCODED_NAMES: Final = 10_000

# Messages or news of an ensemble that a command has not printed yet. Beyond that, the ensemble's thread waits.
MAX_UNPRINTED: Final = 1_000

# Traces

# Jobs that wait to be sent to a collector, a hundred bytes each; the others wait in the store.
MAX_WAITING_TRACES: Final = 100_000

# Jobs that were sent last, which a restarted exporter knows by number: those of some minutes of a busy crew.
MAX_SENT_JOBS: Final = 5_000

# Tasks of one job that are sent, and as many that failed, unless the user says otherwise: backends refuse, or cannot
# show, traces of more than some megabytes.
MAX_TRACED_TASKS: Final = 10_000

# Spans in one request to a collector, as in OpenTelemetry's own exporters: about half a megabyte.
MAX_SPAN_BATCH: Final = 512

# Characters of a text in a span, and of a command; tags of a job. Many backends cut or refuse longer ones.
MAX_TRACED_TEXT: Final = 500
MAX_TRACED_COMMAND: Final = 4_000
MAX_TRACED_TAGS: Final = 20
