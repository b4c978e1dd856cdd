/* The frame around a run of the test's own, each in a child process: what it logs, answers and exits with. */
#include "frame.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"

struct settings {
    struct admin_settings admin;
    struct run_settings run;
};

static const struct config_key admin_keys[] = {{.key = "listen",
                                                .type = CONFIG_ADDRESS,
                                                .offset = offsetof(struct admin_settings, listen),
                                                .fallback = "127.0.0.1:0",
                                                .help = "x"}};
static const struct config_key run_keys[] = {{.key = "shutdown_timeout",
                                              .type = CONFIG_DURATION,
                                              .offset = offsetof(struct run_settings, shutdown_timeout_ms),
                                              .fallback = "1s",
                                              .help = "x"},
                                             {.key = "log_level",
                                              .type = CONFIG_CHOICE,
                                              .offset = offsetof(struct run_settings, log_level),
                                              .fallback = "info",
                                              .choices = "debug|info|warn|error",
                                              .help = "x"},
                                             {.key = "log_format",
                                              .type = CONFIG_CHOICE,
                                              .offset = offsetof(struct run_settings, log_format),
                                              .fallback = "json",
                                              .choices = "json|text",
                                              .help = "x"}};
static const struct config_section sections[] = {
    {.name = "admin",
     .offset = offsetof(struct settings, admin),
     .keys = admin_keys,
     .key_count = 1,
     .help = "x"},
    {.name = "run", .offset = offsetof(struct settings, run), .keys = run_keys, .key_count = 3, .help = "x"}};

static enum status accept_all(struct config *config, const void *settings, struct fault *fault)
{
    (void)config;
    (void)settings;
    (void)fault;
    return ST_OK;
}

/* Ready until the stop; then drains until its own time is over. */
static enum status run_well(struct frame *frame, struct fault *fault)
{
    (void)fault;
    size_t slot = readiness_add(frame->readiness, "loop", 0);
    readiness_ready(frame->readiness, slot);
    while (!signals_stopping()) {
        log_event(LOG_DEBUG, "TEST-BEAT", "working");
        struct pollfd fd = {signals_stop_fd(), POLLIN, 0};
        (void)poll(&fd, 1, 50);
    }
    usleep(300 * 1000);
    return ST_OK;
}

static enum status run_fatal(struct frame *frame, struct fault *fault)
{
    (void)frame;
    fault_set(fault, "_FENCED", "fenced by another instance");
    fault->exit_code = EXIT_KAFKA;
    return ST_FATAL;
}

static enum status run_fatal_slowly(struct frame *frame, struct fault *fault)
{
    signals_stop();
    log_event(LOG_ERROR, "TEST-FATAL", "leaving");
    usleep(300 * 1000);
    return run_fatal(frame, fault);
}

static enum status run_stuck(struct frame *frame, struct fault *fault)
{
    (void)frame;
    (void)fault;
    for (int i = 0; i < 1000; i++)
        pause();
    return ST_OK;
}

struct child {
    pid_t pid;
    int fd;
    char text[65536];
    size_t bytes;
};

static void child_start(struct child *child, enum status (*run)(struct frame *, struct fault *),
                        const char *path, const char *listen_at)
{
    int pipes[2];
    memset(child, 0, sizeof *child);
    cr_assert_eq(pipe(pipes), 0);
    fflush(NULL);
    child->pid = fork();
    if (child->pid == 0) {
        const struct frame_program program = {.name = "tester",
                                              .summary = "x",
                                              .config = {sections, 2},
                                              .settings_bytes = sizeof(struct settings),
                                              .run_offset = offsetof(struct settings, run),
                                              .admin_offset = offsetof(struct settings, admin),
                                              .check = accept_all,
                                              .run = run};
        char *argv[4] = {strdup("tester"), strdup("-F"), path == NULL ? NULL : strdup(path), NULL};
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        if (listen_at != NULL)
            setenv("BELFRY_ADMIN_LISTEN", listen_at, 1);
        _exit(frame_main(&program, path == NULL ? 1 : 3, argv));
    }
    close(pipes[1]);
    child->fd = pipes[0];
}

/* Reads the child's log until it says this; NULL when it ends or 10 s are over first. */
static const char *child_says(struct child *child, const char *text)
{
    for (int i = 0; i < 1000; i++) {
        const char *found = strstr(child->text, text);
        if (found != NULL)
            return found;
        struct pollfd fd = {child->fd, POLLIN, 0};
        if (poll(&fd, 1, 10) != 1)
            continue;
        ssize_t got = read(child->fd, child->text + child->bytes, sizeof child->text - 1 - child->bytes);
        if (got <= 0)
            return NULL;
        child->bytes += (size_t)got;
    }
    return NULL;
}

static int child_end(struct child *child)
{
    int status = 0;
    (void)child_says(child, "never said");
    cr_assert_eq(waitpid(child->pid, &status, 0), child->pid);
    close(child->fd);
    cr_assert(WIFEXITED(status), "%s", child->text);
    return WEXITSTATUS(status);
}

static unsigned port_of(struct child *child)
{
    unsigned port = 0;
    const char *at = child_says(child, "\"admin_port\":");
    cr_assert_not_null(at, "%s", child->text);
    cr_assert_eq(sscanf(at, "\"admin_port\":%u", &port), 1);
    return port;
}

/* The status of one GET. */
static int get(unsigned port, const char *path)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[1024] = "";
    int status = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        int bytes = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
        (void)send(fd, text, (size_t)bytes, MSG_NOSIGNAL);
        (void)recv(fd, text, sizeof text - 1, 0);
        (void)sscanf(text, "HTTP/1.1 %d", &status);
    }
    close(fd);
    return status;
}

Test(frame, starts_serves_and_leaves)
{
    struct child *child = malloc(sizeof *child);
    child_start(child, run_well, NULL, NULL);
    unsigned port = port_of(child);
    for (int i = 0; i < 100 && get(port, "/readyz") != 200; i++)
        usleep(10000);
    cr_expect_eq(get(port, "/readyz"), 200);
    cr_expect_eq(get(port, "/livez"), 200);
    cr_expect_eq(get(port, "/metrics"), 200);
    kill(child->pid, SIGTERM);
    usleep(100 * 1000);
    cr_expect_eq(get(port, "/readyz"), 503, "not ready while it drains");
    cr_expect_eq(get(port, "/livez"), 200);
    cr_expect_eq(child_end(child), 0);
    cr_expect_not_null(strstr(child->text, "\"id\":\"RUN-START\""));
    cr_expect_not_null(strstr(child->text, "\"id\":\"RUN-END\""));
    cr_expect_null(strstr(child->text, "TEST-BEAT"));
    free(child);
}

Test(frame, a_fatal_run_gives_its_exit_code)
{
    struct child *child = malloc(sizeof *child);
    child_start(child, run_fatal, NULL, NULL);
    cr_expect_eq(child_end(child), EXIT_KAFKA);
    cr_expect_not_null(strstr(child->text, "\"status\":\"fatal\",\"code\":\"_FENCED\""), "%s", child->text);
    free(child);
}

Test(frame, a_second_signal_leaves_at_once)
{
    struct child *child = malloc(sizeof *child);
    child_start(child, run_stuck, NULL, NULL);
    cr_assert_not_null(child_says(child, "RUN-START"));
    kill(child->pid, SIGTERM);
    usleep(50 * 1000);
    kill(child->pid, SIGINT);
    cr_expect_eq(child_end(child), 128 + SIGINT);
    cr_expect_not_null(strstr(child->text, "\"id\":\"RUN-CUT\""), "%s", child->text);
    cr_expect_not_null(strstr(child->text, "\"signal\":2,\"exit_code\":130"), "%s", child->text);
    free(child);
}

/* Leaving already, because of a fault: the first signal changes nothing. */
Test(frame, a_signal_does_not_hide_the_fault)
{
    struct child *child = malloc(sizeof *child);
    child_start(child, run_fatal_slowly, NULL, NULL);
    cr_assert_not_null(child_says(child, "TEST-FATAL"));
    kill(child->pid, SIGTERM);
    cr_expect_eq(child_end(child), EXIT_KAFKA);
    free(child);
}

Test(frame, a_run_that_does_not_end_is_ended)
{
    struct child *child = malloc(sizeof *child);
    child_start(child, run_stuck, NULL, NULL);
    cr_assert_not_null(child_says(child, "RUN-START"));
    kill(child->pid, SIGTERM);
    cr_expect_eq(child_end(child), EXIT_FAILED);
    cr_expect_not_null(strstr(child->text, "\"id\":\"RUN-STUCK\""), "%s", child->text);
    free(child);
}

Test(frame, a_taken_admin_port_is_said)
{
    struct child *first = malloc(sizeof *first), *second = malloc(sizeof *second);
    char listen_at[32];
    child_start(first, run_well, NULL, NULL);
    snprintf(listen_at, sizeof listen_at, "127.0.0.1:%u", port_of(first));
    child_start(second, run_well, NULL, listen_at);
    cr_expect_eq(child_end(second), EXIT_FAILED);
    cr_expect_not_null(strstr(second->text, "\"id\":\"ADMIN-OPEN\""));
    cr_expect_not_null(strstr(second->text, "Address already in use"), "%s", second->text);
    kill(first->pid, SIGTERM);
    cr_expect_eq(child_end(first), 0);
    free(first);
    free(second);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(frame, hup_reads_the_log_level_again)
{
    struct child *child = malloc(sizeof *child);
    char path[64];
    snprintf(path, sizeof path, "/tmp/belfry_frame_%d.ini", (int)getpid());
    write_file(path, "[run]\nlog_level = info\n");
    child_start(child, run_well, path, NULL);
    cr_assert_not_null(child_says(child, "RUN-START"));
    write_file(path, "[run]\nlog_level = nonsense\n");
    kill(child->pid, SIGHUP);
    cr_expect_not_null(child_says(child, "nothing changed"), "%s", child->text);
    cr_expect_null(strstr(child->text, "TEST-BEAT"));
    write_file(path, "[run]\nlog_level = debug\n");
    kill(child->pid, SIGHUP);
    cr_expect_not_null(child_says(child, "TEST-BEAT"), "%s", child->text);
    kill(child->pid, SIGTERM);
    cr_expect_eq(child_end(child), 0);
    unlink(path);
    free(child);
}
