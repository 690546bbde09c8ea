/* fdatasync and fsync hang while the file that STUCK_SYNC names is there: a disk that answers no more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int stuck(const char *name, int fd)
{
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *path = getenv("STUCK_SYNC");
    while (path && access(path, F_OK) == 0)
        usleep(5000U);
    return sync(fd);
}

int fdatasync(int fd) { return stuck("fdatasync", fd); }
int fsync(int fd) { return stuck("fsync", fd); }
