"""Every bound on what a peer, our program or an OSC program can claim or fill on the bus, with unit and reason."""

from typing import Final

# Messages

# Bytes of one message. Numbers of a vector take ten times as many in memory.
MAX_BUS_MESSAGE: Final = 16 * 1024 * 1024

# Bytes of one datagram: no more fit into UDP on IPv4.
MAX_DATAGRAM: Final = 65_507

# Bundles within bundles: each level is a copy.
MAX_BUNDLE_DEPTH: Final = 4

# Elements of a bundle and of the bundles in it: the smallest has 20 bytes, and takes many more in memory.
MAX_ELEMENTS: Final = 10_000

# Characters of a type string: each may become an object without taking another byte of the message.
MAX_TYPES: Final = 10_000

# Arrays within arrays.
MAX_NESTING: Final = 16

# Pairs of type strings whose conversions are cached, and types in such a pair: peers choose both.
MAX_PLANS: Final = 1_024
MAX_PLAN_TYPES: Final = 256

# Encoded heads that the outbox caches, and types of one of them. A full cache is cleared.
MAX_DRAFTS: Final = 1_024
MAX_DRAFT_TYPES: Final = 32

# Names and addresses

# Bytes of a service's name: the original compares no more.
MAX_SERVICE_NAME: Final = 64

# Bytes of an ensemble's name.
MAX_ENSEMBLE_NAME: Final = 255

# Characters of the address that a clock reply goes to: the address of the reply begins with it.
MAX_REPLY_TO: Final = 255

# Bytes of an address: more than any program needs. It bounds the cost of a pattern.
MAX_ADDRESS: Final = 1023

# Characters of a handler's path, which must fit an address with its service; of one name in it, and names in it.
MAX_HANDLER_PATH: Final = 900
MAX_PATH_NAME: Final = 255
MAX_PATH_DEPTH: Final = 64

# Characters of a pattern. A longer one matches nothing.
MAX_PATTERN: Final = 255

# Words that a pattern without `*` may expand to, which are looked up one by one.
MAX_PATTERN_WORDS: Final = 256

# Cached compiled patterns: programs send the same few, but peers choose them.
MAX_CACHED_PATTERNS: Final = 1_024

# Handlers

# Handlers of one service, and at one path: adding one copies the others there.
MAX_HANDLERS: Final = 1_000_000
MAX_HANDLERS_AT_PATH: Final = 1_000

# Names compared for one message, weighted by the cost of the pattern: half a second.
MAX_SEARCH_STEPS: Final = 2_000_000

# Deliveries that wait for handlers. Beyond, our own program's messages to itself are refused.
MAX_DELIVERIES: Final = 100_000

# Deliveries that wait for handlers. Beyond, no socket is read.
MAX_WAITING_DELIVERIES: Final = 10_000

# Deliveries of an AsyncEnsemble whose handlers have not ended. Beyond, its engine waits.
MAX_UNFINISHED_DELIVERIES: Final = 1_000

# Cached routes, bytes of the head of one, and its handlers. Peers choose them; a full cache is cleared.
MAX_ROUTES: Final = 1_024
MAX_ROUTE_HEAD: Final = 128
MAX_ROUTE_HANDLERS: Final = 64

# News kept for the first listener: a program may never listen.
MAX_EARLY_NEWS: Final = 1_000

# Time

# Seconds of the shared time. Beyond, a double cannot hold a microsecond.
MAX_SHARED_TIME: Final = float(1 << 33)

# Clock requests that may still be answered. The original accepts only the latest.
MAX_CLOCK_REQUESTS: Final = 8

# Messages that wait for their time, and bytes of them: any process of the ensemble can send timed ones.
MAX_TIMED_MESSAGES: Final = 100_000
MAX_TIMED_BYTES: Final = 64 * 1024 * 1024

# Seconds that a timed message may be ahead. For later there are jobs, which survive a restart.
HORIZON: Final = 86_400.0

# Processes and links

# Processes in the table, and services of one: a host that announces more is trying to fill our memory.
MAX_PROCESSES: Final = 2_000
MAX_SERVICES: Final = 1_000

# Connections being made: a host could announce thousands of processes to make us try them all.
MAX_CONNECTING: Final = 64

# Links whose process has not identified itself, and bytes of the message by which it does.
MAX_STRANGERS: Final = 256
MAX_INIT_BYTES: Final = 4096

# Bytes of a discovery message: no valid one is longer.
MAX_DISCOVERY_BYTES: Final = 512

# Bytes that wait for a process that does not read. Beyond, its link is cut.
MAX_UNSENT_BYTES: Final = 32 * 1024 * 1024

# Links that have ended and whose last datagrams are still accepted.
MAX_DEPARTED_LINKS: Final = 256

# OSC

# Bytes of an OSC message or bundle over TCP.
MAX_OSC_BYTES: Final = 1 << 20

# Connections to one port: each may make us buffer MAX_OSC_BYTES.
MAX_OSC_CONNECTIONS: Final = 64

# Bytes that wait for an OSC program that does not read. Beyond, its connection is cut.
MAX_OSC_UNSENT_BYTES: Final = 8 * 1024 * 1024

# The search for a foreman

# Addresses that one process, or one answer, may name; addresses that one search tries; answers that it reads.
MAX_ADDRESSES_PER_PROCESS: Final = 4
MAX_SEARCHED_ADDRESSES: Final = 16
MAX_SEARCH_ANSWERS: Final = 100
