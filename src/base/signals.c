/* The handler only writes flags and a pipe; everything else happens in the loops. */
#include "base/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_bool stopping;
static atomic_bool reload;
static atomic_uint reloads;
static int stop_pipe[2] = {-1, -1};

static void mark_stopping(void)
{
    if (atomic_exchange(&stopping, true) || stop_pipe[1] < 0)
        return;
    ssize_t written = write(stop_pipe[1], "", 1);
    (void)written;
}

static void on_signal(int number)
{
    if (number == SIGHUP) {
        atomic_store(&reload, true);
        atomic_fetch_add(&reloads, 1);
        return;
    }
    if (atomic_load(&stopping))
        _exit(128 + number);
    mark_stopping();
}

void signals_open(void)
{
    if (stop_pipe[0] < 0 && pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        stop_pipe[0] = stop_pipe[1] = -1;
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

bool signals_take_reload(void)
{
    return atomic_exchange(&reload, false);
}

unsigned signals_reloads(void)
{
    return atomic_load(&reloads);
}
