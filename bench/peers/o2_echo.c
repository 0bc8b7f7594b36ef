/* Round trips between two processes of Debian's libo2 1.1, which look for messages all the time.
 *
 *     o2_echo APPLICATION udp|tcp
 *
 * For each line on stdin, a count, it plays so many round trips, and prints the nanoseconds of each, a line each.
 */
#include <o2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 20 /* seconds for the two to meet, and for a game: by UDP a ball may be lost */

static int is_tcp, wanted, played;
static long long begin, *times;

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void throw_ball(const char *address)
{
    o2_send_start();
    o2_add_int32(played);
    o2_send_finish(0.0, address, is_tcp);
}

static void on_pong(const o2_msg_data_ptr message, const char *types, o2_arg_ptr *argv, int argc, void *data)
{
    (void) message, (void) types, (void) argv, (void) argc, (void) data;
    throw_ball("!ping/ball");
}

static void on_ping(const o2_msg_data_ptr message, const char *types, o2_arg_ptr *argv, int argc, void *data)
{
    long long here = now();
    (void) message, (void) types, (void) argv, (void) argc, (void) data;
    times[played++] = here - begin;
    if (played < wanted) {
        begin = now();
        throw_ball("!pong/ball");
    }
}

static void join(const char *app, const char *service, const char *path, o2_method_handler handler)
{
    if (o2_initialize(app) || o2_service_new(service) || o2_method_new(path, "i", handler, NULL, FALSE, TRUE))
        exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 1;
    is_tcp = strcmp(argv[2], "tcp") == 0;
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        join(argv[1], "pong", "/pong/ball", on_pong);
        while (1)
            o2_poll();
    }
    alarm(PATIENCE);
    join(argv[1], "ping", "/ping/ball", on_ping);
    while (o2_status("pong") < 0) {
        o2_poll();
        usleep(1000);
    }
    while (scanf("%d", &wanted) == 1) {
        times = malloc((size_t) wanted * sizeof *times);
        played = 0;
        alarm(PATIENCE);
        begin = now();
        throw_ball("!pong/ball");
        while (played < wanted)
            o2_poll();
        for (int i = 0; i < wanted; i++)
            printf("%lld\n", times[i]);
        fflush(stdout);
        alarm(0);
        free(times);
    }
    return 0;
}
