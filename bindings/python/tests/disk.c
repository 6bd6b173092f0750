/* A disk as tests want it, before the system's own by LD_PRELOAD: what it does at a sync is in the folder $FOLDLOG_TEST_DISK.
 *
 * `fail`: the sync fails with EIO.
 * `hang`: a FIFO; the sync hangs from the moment on at which somebody opens it for writing until they close it. So who has it
 * open knows that a sync is under way, and nobody has to guess.
 * `who`: a file that takes the number of the thread of every sync, a line each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int disturbed(void) {
    const char *folder = getenv("FOLDLOG_TEST_DISK");
    char path[4096], byte;
    int fifo;
    ssize_t got;
    if (folder == NULL) return 0;
    snprintf(path, sizeof path, "%s/hang", folder);
    if (access(path, F_OK) == 0) {
        /* A signal ends no sync. */
        while ((fifo = open(path, O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR) {}
        while (fifo >= 0 && ((got = read(fifo, &byte, 1)) > 0 || (got < 0 && errno == EINTR))) {}
        if (fifo >= 0) close(fifo);
    }
    snprintf(path, sizeof path, "%s/who", folder);
    if (access(path, F_OK) == 0) {
        char line[32];
        int who = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        int len = snprintf(line, sizeof line, "%ld\n", (long)syscall(SYS_gettid));
        if (who >= 0) {
            if (write(who, line, (size_t)len) != len) abort();
            close(who);
        }
    }
    snprintf(path, sizeof path, "%s/fail", folder);
    if (access(path, F_OK) != 0) return 0;
    errno = EIO;
    return 1;
}

int fsync(int fd) {
    static int (*next)(int);
    if (next == NULL) next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return disturbed() ? -1 : next(fd);
}

int fdatasync(int fd) {
    static int (*next)(int);
    if (next == NULL) next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return disturbed() ? -1 : next(fd);
}
