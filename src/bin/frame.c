/* Options, configuration, log, signals, admin port, run, close: the order every binary keeps. What comes in
 * is argv; what goes out is the exit code. Always holds: the configuration is whole before anything is
 * opened, readiness turns false before anything is closed, and a run that does not end is ended. */
#include "frame.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "io/admin.h"
#include "io/crypto.h"

enum { TEXT_BYTES_MAX = 2 * 1024 * 1024, GRACE_MS = 5000, RELOAD_LOOK_MS = 500, METRICS_SERIES = 1 };

static const char *const build_versions[] = {BELFRY_VERSION, NULL};
static const struct metric_row build_rows[METRICS_SERIES] = {
    {.name = "belfry_build_info",
     .help = "Always 1; the label says which version runs.",
     .type = METRIC_GAUGE,
     .label = "version",
     .values = build_versions},
};

static int print(FILE *file, struct buffer *text, int code)
{
    bool whole = !text->failed && (text->bytes == 0 || fwrite(text->at, 1, text->bytes, file) == text->bytes);
    whole = fflush(file) == 0 && whole;
    buffer_done(text);
    return whole ? code : EXIT_FAILED;
}

static int complain(const struct frame_program *program, const struct fault *fault, int code)
{
    bool usage = strcmp(fault->code, "usage") == 0;
    fprintf(stderr, "%s: %s%s%s%s\n", program->name, fault->text, usage ? "; " : "",
            usage ? program->name : "", usage ? " --help says more" : "");
    return code;
}

static int say_help(const struct frame_program *program)
{
    struct buffer out;
    buffer_init(&out, TEXT_BYTES_MAX);
    options_help(&program->options, program->name, program->summary, &out);
    buffer_add_text(
        &out, "\nConfiguration: flags win over the environment, it over the file, that over the defaults.\n"
              "Environment: BELFRY_<SECTION>_<KEY>, upper case, dots as '_'. Durations 300ms 30s 15min 24h\n"
              "30d, sizes 64KiB 4MiB, booleans on off. A secret may be given as key_file = PATH.\n");
    config_help(&program->config, &out);
    buffer_add_text(
        &out, "\nSIGTERM drains and leaves; SIGHUP reads log level, keys and tokens again.\n"
              "Exit codes: 0 done, 1 failure, 2 usage or configuration, 3 audit found something,\n"
              "4 schema not usable, 5 fatal client error of Kafka, 128 + signal: cut short by a second\n"
              "SIGTERM or SIGINT.\n");
    return print(stdout, &out, EXIT_DONE);
}

static int say_config(const struct config *config)
{
    struct buffer out;
    buffer_init(&out, TEXT_BYTES_MAX);
    config_dump(config, &out);
    return print(stdout, &out, EXIT_DONE);
}

/* The program's own checks; what they refuse is said with its place. */
static enum status check(const struct frame_program *program, struct config *config, const void *settings,
                         struct fault *fault)
{
    enum status status = program->check(config, settings, fault);
    if (status != ST_OK)
        config_blame(config, fault);
    return status;
}

static int check_config(const struct frame *frame)
{
    struct fault fault;
    const struct frame_program *program = frame->program;
    enum status status = check(program, frame->config, frame->settings, &fault);
    for (size_t i = 0; i < frame->config->warning_count; i++)
        fprintf(stderr, "%s: warning: %s\n", program->name, frame->config->warnings[i]);
    if (status != ST_OK)
        return complain(program, &fault, EXIT_USAGE);
    printf("%s: the configuration is good\n", program->name);
    return EXIT_DONE;
}

/* -q and -v stand for [run] log_level; -q wins. */
static void add_verbosity(struct options *options)
{
    bool quiet = options->quiet > 0;
    if ((quiet || options->verbose > 0) && options->override_count < OPTIONS_OVERRIDES_MAX)
        options->overrides[options->override_count++] =
            (struct config_override){.section = "run",
                                     .key = "log_level",
                                     .value = quiet ? "warn" : "debug",
                                     .flag = quiet ? "quiet" : "verbose"};
}

static enum status load(struct config *config, const struct options *options, void *settings,
                        struct fault *fault)
{
    const struct config_input input = {.path = options->config_path,
                                       .environment = environ,
                                       .overrides = options->overrides,
                                       .override_count = options->override_count};
    return config_load(config, &input, settings, fault);
}

static void log_warnings(const struct config *config)
{
    for (size_t i = 0; i < config->warning_count; i++)
        log_event(LOG_WARN, "CONF-WARN", config->warnings[i]);
}

/* What came of the configuration as it is now; the caller ends it. */
struct again {
    struct config config;
    char *settings;
    struct fault fault;
};

static enum status read_again(const struct frame *frame, struct again *again,
                              enum status (*take)(void *context, const void *settings, struct fault *fault),
                              void *context)
{
    again->settings = calloc(1, frame->program->settings_bytes);
    config_init(&again->config, &frame->program->config);
    if (again->settings == NULL) {
        fault_set(&again->fault, "memory", "no memory for the configuration");
        return ST_REJECT;
    }
    enum status status = load(&again->config, frame->options, again->settings, &again->fault);
    if (status == ST_OK)
        status = check(frame->program, &again->config, again->settings, &again->fault);
    if (status == ST_OK && take != NULL)
        status = take(context, again->settings, &again->fault);
    return status;
}

static void end_again(struct again *again)
{
    config_done(&again->config);
    free(again->settings);
}

void frame_take_again(const struct frame *frame,
                      enum status (*take)(void *context, const void *settings, struct fault *fault),
                      void *context)
{
    struct again again;
    enum status status = read_again(frame, &again, take, context);
    (void)status;
    end_again(&again);
}

void frame_reload(const struct frame *frame,
                  enum status (*take)(void *context, const void *settings, struct fault *fault),
                  void *context)
{
    struct again again;
    enum status status = read_again(frame, &again, take, context);
    if (status == ST_OK) {
        const struct run_settings *run = (const void *)(again.settings + frame->program->run_offset);
        log_set_level(run->log_level);
        log_warnings(&again.config);
        log_event(LOG_INFO, "CONF-RELOAD", "configuration read again; what needs a restart waits for it");
    } else {
        log_fault(LOG_ERROR, "CONF-RELOAD", "configuration cannot be read again, nothing changed", status,
                  &again.fault);
    }
    end_again(&again);
}

/* A thread beside the run: reads the configuration again on SIGHUP, and ends a process whose run does not end
 * when it should: libraries that hang in their close are known (libraries.md). */
struct watchdog {
    pthread_t thread;
    int done_fd;
    const struct frame *frame;
};

/* The stop was asked for: waits for the end of the run, a second signal, or the end of its time. */
static void watch_stop(const struct watchdog *watchdog, int hurry_fd)
{
    struct pollfd fds[2] = {{.fd = watchdog->done_fd, .events = POLLIN}, {.fd = hurry_fd, .events = POLLIN}};
    int left = (int)(watchdog->frame->run->shutdown_timeout_ms + GRACE_MS);
    int events = poll(fds, 2, left);
    while (events < 0) /* a SIGHUP */
        events = poll(fds, 2, left);
    if (events == 0) {
        log_event(LOG_ERROR, "RUN-STUCK", "did not drain in time, leaving now", log_int("after_ms", left));
        _exit(EXIT_FAILED);
    }
    if (fds[0].revents != 0)
        return;
    int number = signals_last();
    log_event(LOG_WARN, "RUN-CUT", "a second signal: leaving at once, what is under way is cut",
              log_int("signal", number), log_int("exit_code", 128 + number));
    _exit(128 + number);
}

static void *watch(void *context)
{
    const struct watchdog *watchdog = context;
    struct pollfd fds[2] = {{.fd = watchdog->done_fd, .events = POLLIN},
                            {.fd = signals_stop_fd(), .events = POLLIN}};
    int hurry_fd = signals_hurry_fd();
    unsigned reloads = 0; /* one that came before this thread counts too */
    while (poll(fds, 2, RELOAD_LOOK_MS) <= 0) {
        if (signals_reloads() != reloads) {
            reloads = signals_reloads();
            if (!watchdog->frame->program->run_reloads)
                frame_reload(watchdog->frame, NULL, NULL);
        }
    }
    if (fds[0].revents == 0)
        watch_stop(watchdog, hurry_fd);
    return NULL;
}

static bool watchdog_start(struct watchdog *watchdog, const struct frame *frame)
{
    watchdog->frame = frame;
    watchdog->done_fd = eventfd(0, EFD_CLOEXEC);
    if (watchdog->done_fd < 0)
        return false;
    if (pthread_create(&watchdog->thread, NULL, watch, watchdog) == 0)
        return true;
    close(watchdog->done_fd);
    return false;
}

static void watchdog_stop(struct watchdog *watchdog)
{
    ssize_t written = write(watchdog->done_fd, &(const uint64_t){1}, sizeof(uint64_t));
    (void)written;
    pthread_join(watchdog->thread, NULL);
    close(watchdog->done_fd);
}

static void log_start(const struct frame *frame, const struct admin *admin)
{
    struct buffer summary;
    buffer_init(&summary, LOG_LINE_MAX);
    config_summary(frame->config, &summary);
    log_warnings(frame->config);
    log_event(LOG_INFO, "RUN-START", "starting", log_text("version", BELFRY_VERSION),
              log_int("pid", getpid()), log_int("admin_port", admin_port(admin)),
              log_span("config", buffer_span(&summary)));
    buffer_done(&summary);
}

static int run_inside(struct frame *frame)
{
    struct fault fault;
    struct admin *admin = NULL;
    struct watchdog watchdog;
    const struct admin_settings *settings =
        (const void *)((const char *)frame->settings + frame->program->admin_offset);
    struct metric_set *build = metrics_add(frame->metrics, build_rows, METRICS_SERIES);
    metric_put(build, 0, 0, 1);
    const struct admin_options options = {.listen = settings->listen,
                                          .metrics = frame->metrics,
                                          .readiness = frame->readiness,
                                          .clock = frame->clock};
    enum status status = admin_open(&options, &admin, &fault);
    if (status != ST_OK) {
        log_fault(LOG_ERROR, "ADMIN-OPEN", "cannot serve the admin port", status, &fault);
        return EXIT_FAILED;
    }
    log_start(frame, admin);
    bool watched = watchdog_start(&watchdog, frame);
    fault_reset(&fault);
    status = frame->program->run(frame, &fault);
    readiness_leave(frame->readiness);
    if (status == ST_OK)
        log_event(LOG_INFO, "RUN-END", "done");
    else
        log_fault(LOG_ERROR, "RUN-END", "leaving", status, &fault, log_int("exit_code", fault.exit_code));
    admin_close(admin);
    if (watched)
        watchdog_stop(&watchdog);
    return status == ST_OK ? EXIT_DONE : (int)fault.exit_code;
}

static int serve(struct frame *frame)
{
    struct fault fault;
    if (check(frame->program, frame->config, frame->settings, &fault) != ST_OK)
        return complain(frame->program, &fault, EXIT_USAGE);
    assert(frame->program->run != NULL);
    signals_open();
    frame->metrics = metrics_new();
    frame->readiness = readiness_new(&frame->clock);
    int code = EXIT_FAILED;
    if (frame->metrics != NULL && frame->readiness != NULL)
        code = run_inside(frame);
    readiness_free(frame->readiness);
    metrics_free(frame->metrics);
    return code;
}

static int once_or_serve(struct frame *frame)
{
    struct fault fault;
    bool handled = false;
    enum exit_code code = EXIT_DONE;
    log_open(frame->run->log_level, frame->run->log_format, frame->program->name);
    fault_reset(&fault);
    if (crypto_check(&fault) != ST_OK)
        return complain(frame->program, &fault, EXIT_FAILED);
    if (frame->program->once != NULL) {
        enum status status = frame->program->once(frame, &handled, &code, &fault);
        if (status != ST_OK)
            return complain(frame->program, &fault, (int)fault.exit_code);
        if (handled)
            return fflush(stdout) == 0 ? (int)code : EXIT_FAILED;
    }
    return serve(frame);
}

static int with_options(const struct frame_program *program, struct options *options)
{
    struct fault fault;
    struct config config;
    if (options->action == OPTIONS_HELP)
        return say_help(program);
    if (options->action == OPTIONS_VERSION) {
        printf("%s %s\n", program->name, BELFRY_VERSION);
        return EXIT_DONE;
    }
    int code = EXIT_FAILED;
    char *settings = calloc(1, program->settings_bytes);
    config_init(&config, &program->config);
    struct frame frame = {.program = program,
                          .options = options,
                          .config = &config,
                          .settings = settings,
                          .run = (const void *)(settings + program->run_offset),
                          .clock = clock_system};
    if (settings == NULL)
        fprintf(stderr, "%s: no memory\n", program->name);
    else if (load(&config, options, settings, &fault) != ST_OK)
        code = complain(program, &fault, EXIT_USAGE);
    else if (options->action == OPTIONS_DUMP_CONFIG)
        code = say_config(&config);
    else if (options->action == OPTIONS_CHECK_CONFIG)
        code = check_config(&frame);
    else
        code = once_or_serve(&frame);
    config_done(&config);
    free(settings);
    return code;
}

int frame_main(const struct frame_program *program, int argc, char **argv)
{
    struct fault fault;
    struct options options;
    if (options_parse(&program->options, argc, argv, &options, &fault) != ST_OK)
        return complain(program, &fault, EXIT_USAGE);
    add_verbosity(&options);
    int code = with_options(program, &options);
    options_done(&options);
    return code;
}
