/* What a signal does to a process: each case in a child of its own. */
#include "base/signals.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool stop_is_readable(void)
{
    struct pollfd fd = {signals_stop_fd(), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
}

/* Exit code of the child; each step that is wrong has its own. */
static int child_of(int (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int one_stop(void)
{
    signals_open();
    if (signals_stopping() || stop_is_readable())
        return 1;
    raise(SIGTERM);
    if (!signals_stopping() || !stop_is_readable() || !stop_is_readable())
        return 2;
    return 0;
}

static int two_stops(void)
{
    signals_open();
    raise(SIGTERM);
    raise(SIGINT);
    return 0;
}

static int heard(void)
{
    struct pollfd fd = {.events = POLLIN};
    signals_open();
    fd.fd = signals_hurry_fd();
    raise(SIGTERM);
    if (poll(&fd, 1, 0) != 0)
        return 1;
    raise(SIGINT);
    return poll(&fd, 1, 0) == 1 && signals_last() == SIGINT ? 0 : 2;
}

static int three_stops(void)
{
    int wrong = heard();
    raise(SIGTERM);
    return wrong;
}

static int twins(void)
{
    signals_open();
    for (int i = 0; i < 5; i++)
        raise(SIGTERM);
    return signals_stopping() && signals_last() == SIGTERM ? 0 : 1;
}

static int stop_from_inside(void)
{
    signals_open();
    signals_stop();
    signals_stop();
    raise(SIGTERM); /* the first of its kind */
    return signals_stopping() && stop_is_readable() ? 0 : 1;
}

static int reload(void)
{
    signals_open();
    if (signals_take_reload())
        return 1;
    raise(SIGHUP);
    raise(SIGHUP);
    if (!signals_take_reload() || signals_take_reload() || signals_stopping())
        return 2;
    if (signals_reloads() != 2)
        return 3;
    raise(SIGPIPE); /* ignored */
    return 0;
}

Test(signals, the_first_asks_for_a_stop)
{
    cr_expect_eq(child_of(one_stop), 0);
}

Test(signals, the_second_leaves_at_once)
{
    cr_expect_eq(child_of(two_stops), 128 + SIGINT);
}

Test(signals, the_second_is_heard_and_the_third_waits_for_nobody)
{
    cr_expect_eq(child_of(heard), 0);
    cr_expect_eq(child_of(three_stops), 128 + SIGTERM);
}

Test(signals, the_same_again_at_once_is_one)
{
    cr_expect_eq(child_of(twins), 0);
}

Test(signals, a_loop_may_ask_itself)
{
    cr_expect_eq(child_of(stop_from_inside), 0);
}

Test(signals, hup_is_seen_once)
{
    cr_expect_eq(child_of(reload), 0);
}
