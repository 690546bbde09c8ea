/* A bad disk: fdatasync and fsync hang while the file that STUCK_SYNC names is there, and fail (EIO) while that of
   FAILING_SYNC is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int is_there(const char *name)
{
    const char *path = getenv(name);
    return path && access(path, F_OK) == 0;
}

static int badly(const char *name, int fd)
{
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    while (is_there("STUCK_SYNC"))
        usleep(5000U);
    if (is_there("FAILING_SYNC")) {
        errno = EIO;
        return -1;
    }
    return sync(fd);
}

int fdatasync(int fd) { return badly("fdatasync", fd); }
int fsync(int fd) { return badly("fsync", fd); }
