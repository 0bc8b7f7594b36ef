/* The limit for round trips: two processes with blocking sockets, and nothing else.
 *
 *     echo udp|tcp
 *
 * For each line on stdin, a count, it plays so many round trips, and prints the nanoseconds of each, a line each.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BYTES 28 /* as a message of the bus has */

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int open_socket(int kind, struct sockaddr_in *place)
{
    socklen_t size = sizeof *place;
    int opened = socket(AF_INET, kind, 0);
    memset(place, 0, sizeof *place);
    place->sin_family = AF_INET;
    place->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (opened < 0 || bind(opened, (struct sockaddr *) place, size) || getsockname(opened, (struct sockaddr *) place, &size))
        exit(1);
    return opened;
}

/* Two ends that are connected to each other. */
static void open_pair(int kind, int *ours, int *theirs)
{
    struct sockaddr_in here, there;
    int one = 1;
    *ours = open_socket(kind, &here);
    *theirs = open_socket(kind, &there);
    if (kind == SOCK_STREAM) {
        int server = *theirs;
        if (listen(server, 1) || connect(*ours, (struct sockaddr *) &there, sizeof there))
            exit(1);
        *theirs = accept(server, NULL, NULL);
        setsockopt(*ours, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(*theirs, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    } else if (connect(*ours, (struct sockaddr *) &there, sizeof there) ||
               connect(*theirs, (struct sockaddr *) &here, sizeof here))
        exit(1);
}

int main(int argc, char **argv)
{
    int ours, theirs, count;
    char ball[BYTES] = {0};
    if (argc != 2)
        return 1;
    open_pair(strcmp(argv[1], "tcp") ? SOCK_DGRAM : SOCK_STREAM, &ours, &theirs);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (recv(theirs, ball, BYTES, 0) == BYTES && send(theirs, ball, BYTES, 0) == BYTES)
            ;
        return 0;
    }
    while (scanf("%d", &count) == 1) {
        long long *times = malloc((size_t) count * sizeof *times);
        for (int i = 0; i < count; i++) {
            long long begin = now();
            if (send(ours, ball, BYTES, 0) != BYTES || recv(ours, ball, BYTES, 0) != BYTES)
                return 1;
            times[i] = now() - begin;
        }
        for (int i = 0; i < count; i++)
            printf("%lld\n", times[i]);
        fflush(stdout);
        free(times);
    }
    return 0;
}
