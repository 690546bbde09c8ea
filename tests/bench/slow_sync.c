/* Every fdatasync and fsync takes SLOW_SYNC_MS longer: a tired SD card. Preloaded into both sides of the benchmark. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int slowly(const char *name, int fd)
{
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *ms = getenv("SLOW_SYNC_MS");
    usleep((ms ? (unsigned)atoi(ms) : 40U) * 1000U);
    return sync(fd);
}

int fdatasync(int fd) { return slowly("fdatasync", fd); }
int fsync(int fd) { return slowly("fsync", fd); }
