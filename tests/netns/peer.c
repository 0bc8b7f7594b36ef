/* A process on the bus, with Debian's libo2 1.1. It does what lines on stdin say, and tells what happens on stdout.
 *
 *     peer APPLICATION
 *
 *     lead                                     tell the others the time
 *     service NAME | free NAME                 offer a service, or no more
 *     send tcp|udp AT ADDRESS TYPES [VALUE..]  AT: seconds from now on the shared clock; 0 is at once
 *     status NAME                              -> status NAME NUMBER
 *     time                                     -> time MONOTONIC SHARED
 *     trip                                     -> trip MEAN LEAST
 *
 * It ends when stdin does.
 *
 *     ready IP:PORT
 *     sent AT | error WHAT                     after `send`; AT is the time in the message
 *     info NAME STATUS PROCESS                 a service came, changed or went
 *     synced MONOTONIC                         the shared time is known
 *     got MONOTONIC SHARED AT ADDRESS ,TYPES [VALUE..]
 *
 * Values: text and bytes in hexadecimal after a '.', floating-point numbers as %a writes them, others in decimal.
 */
#include <o2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 100000
#define PERIOD_MS 1 /* between two looks at the network */

static double monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Values in text */

static void print_bytes(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    printf(" .");
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
}

static size_t read_bytes(const char *text, char *bytes)
{
    size_t size = 0;
    unsigned int byte;
    for (text++; sscanf(text, "%2x", &byte) == 1; text += 2)
        bytes[size++] = (char) byte;
    bytes[size] = 0;
    return size;
}

static void print_value(char type, o2_arg_ptr value)
{
    switch (type) {
    case 'i': printf(" %d", value->i32); break;
    case 'c': printf(" %d", value->c); break;
    case 'B': printf(" %d", value->B); break;
    case 'h': printf(" %lld", (long long) value->i64); break;
    case 'm': printf(" %u", value->m); break;
    case 'f': printf(" %a", value->f); break;
    case 'd': printf(" %a", value->d); break;
    case 't': printf(" %a", value->t); break;
    case 's': print_bytes(value->s, strlen(value->s)); break;
    case 'S': print_bytes(value->S, strlen(value->S)); break;
    case 'b': print_bytes(value->b.data, value->b.size); break;
    default: break; /* T F N I are in the types */
    }
}

static void add_value(char type, const char *text)
{
    static char bytes[LINE_BYTES];
    size_t size;
    switch (type) {
    case 'i': o2_add_int32(atoi(text)); break;
    case 'c': o2_add_char(atoi(text)); break;
    case 'B': o2_add_bool(atoi(text)); break;
    case 'h': o2_add_int64(strtoll(text, NULL, 10)); break;
    case 'm': o2_add_midi((uint32_t) strtoul(text, NULL, 10)); break;
    case 'f': o2_add_float(strtof(text, NULL)); break;
    case 'd': o2_add_double(strtod(text, NULL)); break;
    case 't': o2_add_time(strtod(text, NULL)); break;
    case 's': read_bytes(text, bytes); o2_add_string(bytes); break;
    case 'S': read_bytes(text, bytes); o2_add_symbol(bytes); break;
    case 'b': size = read_bytes(text, bytes); o2_add_blob_data((uint32_t) size, bytes); break;
    default: o2_add_only_typecode(type); break;
    }
}

static int has_value(char type)
{
    return strchr("TFNI", type) == NULL;
}

/* What happens */

static void on_message(const o2_msg_data_ptr message, const char *types, o2_arg_ptr *argv, int argc, void *data)
{
    double now = monotonic();
    (void) argv, (void) argc, (void) data;
    printf("got %.9f %.9f %a %s ,%s", now, o2_time_get(), message->timestamp, message->address, types);
    o2_extract_start(message);
    for (; *types; types++) {
        o2_arg_ptr value = o2_get_next(*types);
        if (value == NULL)
            printf(" ?");
        else
            print_value(*types, value);
    }
    printf("\n");
}

static void on_info(const o2_msg_data_ptr message, const char *types, o2_arg_ptr *argv, int argc, void *data)
{
    (void) message, (void) types, (void) argc, (void) data;
    printf("info %s %d %s\n", argv[0]->s, argv[1]->i32, argv[2]->s);
}

/* What is to be done */

static void offer(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "/%s", name);
    if (o2_service_new(name) != O2_SUCCESS || o2_method_new(path, NULL, on_message, NULL, FALSE, FALSE) != O2_SUCCESS)
        printf("error service\n");
}

static void send_message(void)
{
    const char *way = strtok(NULL, " "), *at = strtok(NULL, " "), *address = strtok(NULL, " ");
    const char *types = strtok(NULL, " ");
    double seconds = strtod(at, NULL);
    o2_send_start();
    for (; types != NULL && *types; types++)
        add_value(*types, has_value(*types) ? strtok(NULL, " ") : NULL);
    double when = seconds ? o2_time_get() + seconds : 0.0;
    int result = o2_send_finish(when, address, strcmp(way, "tcp") == 0);
    if (result != O2_SUCCESS)
        printf("error send %d\n", result);
    else
        printf("sent %a\n", when);
}

static void obey(char *line)
{
    double mean = -1, least = -1, now;
    const char *word = strtok(line, " ");
    if (word == NULL)
        return;
    if (strcmp(word, "lead") == 0)
        o2_clock_set(NULL, NULL);
    else if (strcmp(word, "service") == 0)
        offer(strtok(NULL, " "));
    else if (strcmp(word, "free") == 0)
        o2_service_free(strtok(NULL, " "));
    else if (strcmp(word, "send") == 0)
        send_message();
    else if (strcmp(word, "status") == 0) {
        const char *name = strtok(NULL, " ");
        printf("status %s %d\n", name, o2_status(name));
    } else if (strcmp(word, "time") == 0) {
        now = monotonic();
        printf("time %.9f %.9f\n", now, o2_time_get());
    } else if (strcmp(word, "trip") == 0) {
        o2_roundtrip(&mean, &least);
        printf("trip %.9f %.9f\n", mean, least);
    }
}

/* All whole lines that are there. Whether to go on. */
static int read_lines(void)
{
    static char buffer[LINE_BYTES];
    static size_t size = 0;
    ssize_t count = read(STDIN_FILENO, buffer + size, sizeof buffer - 1 - size);
    char *end;
    if (count <= 0)
        return 0;
    size += (size_t) count;
    buffer[size] = 0;
    while ((end = memchr(buffer, '\n', size)) != NULL) {
        *end = 0;
        size_t used = (size_t) (end - buffer) + 1;
        obey(buffer);
        memmove(buffer, buffer + used, size - used);
        size -= used;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const char *ip;
    int port, was_synced = 0, goes_on = 1;
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    if (argc != 2 || o2_initialize(argv[1]) != O2_SUCCESS) {
        fprintf(stderr, "peer: cannot start\n");
        return 1;
    }
    o2_method_new("/_o2/si", "sis", on_info, NULL, FALSE, TRUE);
    o2_get_address(&ip, &port);
    printf("ready %s:%d\n", ip, port);
    while (goes_on) {
        o2_poll();
        if (o2_clock_is_synchronized && !was_synced)
            printf("synced %.9f\n", monotonic());
        was_synced = o2_clock_is_synchronized;
        if (poll(&input, 1, PERIOD_MS) > 0)
            goes_on = read_lines();
    }
    o2_finish();
    return 0;
}
