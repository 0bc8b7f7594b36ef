/* The limit for shell tasks: so many of `sh -c true`, some at a time.
 *
 *     spawn COUNT SLOTS
 */
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv)
{
    char *words[] = {"sh", "-c", "true", NULL};
    int count, slots, running = 0;
    pid_t pid;
    if (argc != 3)
        return 1;
    count = atoi(argv[1]);
    slots = atoi(argv[2]);
    while (count || running) {
        if (count && running < slots) {
            if (posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ))
                return 1;
            count--;
            running++;
        } else if (wait(NULL) > 0)
            running--;
    }
    return 0;
}
