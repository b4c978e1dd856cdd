/* The handler only writes flags and a pipe; everything else happens in the loops. */
#include "base/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { TWIN_MS = 200 };

static atomic_bool stopping;
static atomic_bool reload;
static atomic_uint reloads;
static atomic_int last_stop; /* the signal that came last */
static atomic_uint stops;    /* signals that asked for the stop */
static atomic_llong stop_ms; /* when the last of them came */
static atomic_bool hurry_heard;
static int stop_pipe[2] = {-1, -1}, hurry_pipe[2] = {-1, -1};

static void mark(const int pipe[2])
{
    if (pipe[1] < 0)
        return;
    ssize_t written = write(pipe[1], "", 1);
    (void)written;
}

static void mark_stopping(void)
{
    if (!atomic_exchange(&stopping, true))
        mark(stop_pipe);
}

/* timeout(1) and some supervisors signal the process and then its group: one wish, told twice. */
static bool is_twin(int number)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* may be called in a handler (POSIX) */
    long long now_ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    long long before_ms = atomic_exchange(&stop_ms, now_ms);
    return atomic_exchange(&last_stop, number) == number && now_ms - before_ms < TWIN_MS;
}

/* The first drains. The second is said and ends the process: by whoever listens for that, else here. A third
 * one waits for nobody. */
static void on_stop(int number)
{
    if (is_twin(number))
        return;
    unsigned before = atomic_fetch_add(&stops, 1);
    if (before > 1 || (before == 1 && !atomic_load(&hurry_heard)))
        _exit(128 + number);
    if (before == 1)
        mark(hurry_pipe);
    mark_stopping();
}

static void on_signal(int number)
{
    if (number == SIGHUP) {
        atomic_store(&reload, true);
        atomic_fetch_add(&reloads, 1);
        return;
    }
    on_stop(number);
}

static void open_pipe(int pipe[2])
{
    if (pipe[0] < 0 && pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        pipe[0] = pipe[1] = -1;
}

void signals_open(void)
{
    open_pipe(stop_pipe);
    open_pipe(hurry_pipe);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

bool signals_stopping(void)
{
    return atomic_load(&stopping);
}

void signals_stop(void)
{
    mark_stopping();
}

int signals_stop_fd(void)
{
    return stop_pipe[0];
}

int signals_hurry_fd(void)
{
    atomic_store(&hurry_heard, hurry_pipe[0] >= 0);
    return hurry_pipe[0];
}

int signals_last(void)
{
    return atomic_load(&last_stop);
}

bool signals_take_reload(void)
{
    return atomic_exchange(&reload, false);
}

unsigned signals_reloads(void)
{
    return atomic_load(&reloads);
}
