/* The world and its children: folders, processes, ready checks, logs. */
#include "support/harness.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/harness_private.h"

int64_t world_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int world_main(int argc, char **argv, const struct world_option *options, size_t count)
{
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        size_t which = 0;
        while (which < count && strcmp(argv[i], options[which].flag) != 0)
            which++;
        if (which < count && i + 1 < argc)
            setenv(options[which].variable, argv[++i], 1);
        else
            argv[kept++] = argv[i];
    }
    argv[kept] = NULL;
    struct criterion_test_set *tests = criterion_initialize();
    int status = 0;
    if (criterion_handle_args(kept, argv, true))
        status = !criterion_run_all_tests(tests);
    criterion_finalize(tests);
    return status;
}

long world_asked_for(const char *variable, long fallback)
{
    const char *text = getenv(variable);
    return text == NULL ? fallback : strtol(text, NULL, 10);
}

void world_sleep_ms(int ms)
{
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}

void world_wait(const char *what, int seconds, bool (*done)(void *context), void *context)
{
    int64_t deadline = world_now_ms() + (int64_t)seconds * 1000;
    while (!done(context)) {
        cr_assert(world_now_ms() < deadline, "waited %d s for %s", seconds, what);
        world_sleep_ms(20);
    }
}

static void read_service(const char *variable, const char *file, char *text, size_t size)
{
    const char *given = getenv(variable);
    if (given != NULL && given[0] != '\0') {
        snprintf(text, size, "%s", given);
        return;
    }
    char path[WORLD_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", BELFRY_SERVICES_DIR, file);
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return; /* the test fails when it needs the service */
    if (fgets(text, (int)size, stream) != NULL)
        text[strcspn(text, "\r\n")] = '\0';
    fclose(stream);
}

void world_open(struct world *w, const char *name)
{
    memset(w, 0, sizeof *w);
    unsigned tag = 0;
    cr_assert(getrandom(&tag, sizeof tag, 0) == (ssize_t)sizeof tag);
    snprintf(w->name, sizeof w->name, "%s", name);
    snprintf(w->folder, sizeof w->folder, "%s/worlds", BELFRY_BUILD_DIR);
    mkdir(w->folder, 0755);
    snprintf(w->folder, sizeof w->folder, "%s/worlds/%s-%08x", BELFRY_BUILD_DIR, name, tag);
    cr_assert(mkdir(w->folder, 0755) == 0, "cannot make %s: %s", w->folder, strerror(errno));
    read_service("BELFRY_TEST_POSTGRES", "postgres.uri", w->superuser_uri, sizeof w->superuser_uri);
    read_service("BELFRY_TEST_KAFKA", "kafka.bootstrap", w->brokers, sizeof w->brokers);
    snprintf(w->database, sizeof w->database, "belfry_%s_%08x", name, tag);
    const char *stem = w->database;
    snprintf(w->events, sizeof w->events, "%s.events", stem);
    snprintf(w->devices, sizeof w->devices, "%s.devices", stem);
    snprintf(w->receipts, sizeof w->receipts, "%s.receipts", stem);
    snprintf(w->dlq, sizeof w->dlq, "%s.events.dlq", stem);
    snprintf(w->receipts_dlq, sizeof w->receipts_dlq, "%s.receipts.dlq", stem);
    snprintf(w->group, sizeof w->group, "%s-d", stem);
    snprintf(w->reconciler_group, sizeof w->reconciler_group, "%s-r", stem);
}

void world_use_server(struct world *w, const char *superuser_uri)
{
    snprintf(w->superuser_uri, sizeof w->superuser_uri, "%s", superuser_uri);
}

void world_use_brokers(struct world *w, const char *brokers)
{
    snprintf(w->brokers, sizeof w->brokers, "%s", brokers);
}

/* A test that fails leaves its server running: this stops it when the test's process is gone. */
static void watch_server(struct world *w, const char *path, const char *folder, const char *mode)
{
    char text[3 * WORLD_PATH_MAX];
    snprintf(
        text, sizeof text,
        "(while kill -0 %d 2>/dev/null; do sleep 1; done; '%s' stop '%s' %s) </dev/null >/dev/null 2>&1 &",
        (int)getpid(), path, folder, mode);
    const char *argv[] = {"-c", text, NULL};
    cr_assert(world_run(w, "/bin/bash", argv, NULL, 0) == 0);
}

void world_own_server(struct world *w, const char *script, const char *verb, const char *mode)
{
    char path[WORLD_PATH_MAX], folder[WORLD_PATH_MAX], output[256];
    bool is_kafka = strcmp(script, "kafka") == 0, starts = strcmp(verb, "start") == 0;
    snprintf(path, sizeof path, "%s/tests/support/%s", BELFRY_SOURCE_DIR, script);
    snprintf(folder, sizeof folder, "%.400s/%s", w->folder, script);
    const char *argv[] = {verb, folder, mode, NULL};
    int code = world_run(w, path, argv, output, sizeof output);
    cr_assert(code == 0, "%s %s left with %d: see %s", script, verb, code,
              w->children[w->child_count - 1].log);
    output[strcspn(output, "\r\n")] = '\0';
    if (starts && is_kafka)
        world_use_brokers(w, output);
    else if (starts)
        world_use_server(w, output);
    if (starts)
        watch_server(w, path, folder, is_kafka ? "kill" : "immediate");
}

int world_standby(struct world *w)
{
    char path[WORLD_PATH_MAX], primary[WORLD_PATH_MAX], folder[WORLD_PATH_MAX], output[256];
    snprintf(path, sizeof path, "%s/tests/support/postgres", BELFRY_SOURCE_DIR);
    snprintf(primary, sizeof primary, "%.400s/postgres", w->folder);
    snprintf(folder, sizeof folder, "%.400s/standby", w->folder);
    const char *argv[] = {"standby", folder, primary, NULL};
    int code = world_run(w, path, argv, output, sizeof output);
    cr_assert(code == 0, "postgres standby left with %d: see %s", code, w->children[w->child_count - 1].log);
    watch_server(w, path, folder, "immediate");
    const char *port = strrchr(output, ':');
    cr_assert_not_null(port, "%s", output);
    return (int)strtol(port + 1, NULL, 10);
}

void world_close(struct world *w)
{
    for (int i = 0; i < w->child_count; i++) {
        if (w->children[i].pid > 0)
            child_kill(&w->children[i]);
    }
    harness_close_kafka(w);
    harness_close_database(w);
}

/* -- children -----------------------------------------------------------------------------------------------
 */

static void build_path(const char *binary, char *path)
{
    if (binary[0] == '/')
        snprintf(path, WORLD_PATH_MAX, "%s", binary);
    else
        snprintf(path, WORLD_PATH_MAX, "%s/%s", BELFRY_BUILD_DIR, binary);
}

static void redirect(const char *path, int target)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || dup2(fd, target) < 0)
        _exit(127);
    close(fd);
}

static void become(struct child *child, const char *path, const char *const *argv,
                   const char *const *environment)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    redirect(child->log, STDERR_FILENO);
    redirect(child->output, STDOUT_FILENO);
    for (int i = 0; environment != NULL && environment[i] != NULL; i++)
        putenv(strdup(environment[i]));
    char *arguments[64] = {strdup(path)};
    for (int i = 0; argv != NULL && argv[i] != NULL && i < 62; i++)
        arguments[i + 1] = strdup(argv[i]);
    execv(path, arguments);
    dprintf(STDERR_FILENO, "harness: cannot run %s: %s\n", path, strerror(errno));
    _exit(127);
}

struct child *child_start(struct world *w, const char *binary, const char *const *argv,
                          const char *const *environment)
{
    cr_assert(w->child_count < WORLD_CHILDREN_MAX, "too many children");
    struct child *child = &w->children[w->child_count];
    const char *stem = strrchr(binary, '/');
    snprintf(child->name, sizeof child->name, "%s-%d", stem == NULL ? binary : stem + 1, w->child_count);
    w->child_count++;
    snprintf(child->log, sizeof child->log, "%.400s/%s.log", w->folder, child->name);
    snprintf(child->output, sizeof child->output, "%.400s/%s.out", w->folder, child->name);
    char path[WORLD_PATH_MAX];
    build_path(binary, path);
    fflush(NULL);
    child->pid = fork();
    cr_assert(child->pid >= 0, "fork: %s", strerror(errno));
    if (child->pid == 0)
        become(child, path, argv, environment);
    return child;
}

void child_signal(struct child *child, int number)
{
    if (child->pid > 0)
        kill(child->pid, number);
}

static void note_end(struct child *child, int status)
{
    child->pid = 0;
    child->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool child_running(struct child *child)
{
    int status = 0;
    if (child->pid > 0 && waitpid(child->pid, &status, WNOHANG) == child->pid)
        note_end(child, status);
    return child->pid > 0;
}

int child_wait(struct child *child, int seconds)
{
    int64_t deadline = world_now_ms() + (int64_t)seconds * 1000;
    while (child_running(child)) {
        if (world_now_ms() > deadline) {
            child_kill(child);
            cr_assert_fail("%s did not end within %d s: see %s", child->name, seconds, child->log);
        }
        world_sleep_ms(5);
    }
    return child->exit_code;
}

void child_stop(struct child *child)
{
    cr_assert(child_running(child), "%s ended before it was stopped, exit code %d: see %s", child->name,
              child->exit_code, child->log);
    child_signal(child, SIGTERM);
    int code = child_wait(child, 40);
    cr_assert(code == 0, "%s left with %d: see %s", child->name, code, child->log);
}

void child_kill(struct child *child)
{
    int status = 0;
    if (child->pid <= 0)
        return;
    kill(child->pid, SIGKILL);
    if (waitpid(child->pid, &status, 0) == child->pid)
        note_end(child, status);
}

static bool file_has(const char *path, const char *text)
{
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return false;
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, stream) >= 0)
        found = strstr(line, text) != NULL;
    free(line);
    fclose(stream);
    return found;
}

int64_t child_rss_kib(const struct child *child)
{
    char path[64], line[256];
    long long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)child->pid);
    FILE *stream = fopen(path, "r");
    cr_assert(stream != NULL, "%s has ended: see %s", child->name, child->log);
    while (fgets(line, sizeof line, stream) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoll(line + 6, NULL, 10);
    }
    fclose(stream);
    return kib;
}

int child_log_lines(const struct child *child, const char *text)
{
    static char line[65536];
    int count = 0;
    FILE *stream = fopen(child->log, "r");
    cr_assert(stream != NULL);
    while (fgets(line, sizeof line, stream) != NULL)
        count += strstr(line, text) != NULL;
    fclose(stream);
    return count;
}

bool child_log_has(struct child *child, const char *text)
{
    return file_has(child->log, text);
}

void child_wait_log(struct child *child, const char *text, int seconds)
{
    int64_t deadline = world_now_ms() + (int64_t)seconds * 1000;
    while (!child_log_has(child, text)) {
        cr_assert(world_now_ms() < deadline, "%s never logged %s: see %s", child->name, text, child->log);
        world_sleep_ms(20);
    }
}

bool world_logs_have(struct world *w, const char *text)
{
    for (int i = 0; i < w->child_count; i++) {
        if (file_has(w->children[i].log, text) || file_has(w->children[i].output, text))
            return true;
    }
    return false;
}

static void slurp(const char *path, char *text, size_t size)
{
    FILE *stream = fopen(path, "r");
    size_t got = stream == NULL ? 0 : fread(text, 1, size - 1, stream);
    text[got] = '\0';
    if (stream != NULL)
        fclose(stream);
}

int world_run(struct world *w, const char *binary, const char *const *argv, char *output, size_t size)
{
    struct child *child = child_start(w, binary, argv, NULL);
    int code = child_wait(child, 120);
    if (output != NULL)
        slurp(child->output, output, size);
    return code;
}

int world_free_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &bytes) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

void child_wait_ready(struct child *child, int seconds)
{
    char url[128];
    snprintf(url, sizeof url, "http://%s/readyz", child->admin);
    int64_t deadline = world_now_ms() + (int64_t)seconds * 1000;
    for (;;) {
        struct world_reply reply;
        world_http("GET", url, NULL, NULL, &reply);
        long status = reply.status;
        if (status == 200) {
            world_reply_done(&reply);
            return;
        }
        cr_assert(child_running(child), "%s ended with %d before it was ready: see %s", child->name,
                  child->exit_code, child->log);
        cr_assert(world_now_ms() < deadline, "%s not ready after %d s (%ld %s): see %s", child->name, seconds,
                  status, reply.body, child->log);
        world_reply_done(&reply);
        world_sleep_ms(50);
    }
}

/* -- the simulator
 * -------------------------------------------------------------------------------------------- */

struct child *world_simulator(struct world *w, const char *const *extra_arguments)
{
    snprintf(w->record, sizeof w->record, "%.400s/accepted.ndjson", w->folder);
    const char *argv[40] = {"--listen", "127.0.0.1:0", "--record", w->record};
    for (int i = 0; extra_arguments != NULL && extra_arguments[i] != NULL && i < 32; i++)
        argv[4 + i] = extra_arguments[i];
    struct child *child = child_start(w, "tests/support/belfry-simulator", argv, NULL);
    int64_t deadline = world_now_ms() + 10000;
    char line[256];
    for (;;) {
        slurp(child->output, line, sizeof line);
        char *address = strstr(line, "127.0.0.1:");
        if (address != NULL && strchr(address, '\n') != NULL) {
            address[strcspn(address, "\r\n ")] = '\0';
            snprintf(w->provider_url, sizeof w->provider_url, "http://%s", address);
            return child;
        }
        cr_assert(child_running(child) && world_now_ms() < deadline, "the simulator did not start: see %s",
                  child->log);
        world_sleep_ms(10);
    }
}

int64_t simulator_accepted(struct world *w, const char *text)
{
    FILE *stream = fopen(w->record, "r");
    if (stream == NULL)
        return 0;
    char *line = NULL;
    size_t size = 0;
    int64_t count = 0;
    while (getline(&line, &size, stream) >= 0)
        count += text == NULL || strstr(line, text) != NULL;
    free(line);
    fclose(stream);
    return count;
}
