/* What the three binaries share: options -> configuration -> log -> signals -> admin port -> run -> close.
 *
 * A main() fills one struct frame_program and calls frame_main; its run function opens what it needs, works
 * until signals_stopping() and closes again. */
#ifndef BELFRY_BIN_FRAME_H
#define BELFRY_BIN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/options.h"
#include "base/readiness.h"
#include "base/status.h"
#include "io/settings.h"

enum run_role { ROLE_INGEST = 1, ROLE_FANOUT = 2 };

/* [run] */
struct run_settings {
    unsigned roles; /* dispatcher: ROLE_INGEST | ROLE_FANOUT */
    int64_t shutdown_timeout_ms;
    enum log_level log_level;
    enum log_format log_format;
};

struct frame {
    const struct frame_program *program;
    const struct options *options;
    const void *settings; /* the binary's struct */
    const struct run_settings *run;
    struct clock clock;
    struct metrics *metrics;     /* served on the admin port */
    struct readiness *readiness; /* a part that is not ready says why */
};

struct frame_program {
    const char *name;    /* belfry-dispatcher */
    const char *summary; /* one line for --help */
    struct options_table options;
    struct config_table config;
    size_t settings_bytes;
    size_t run_offset, admin_offset; /* of struct run_settings, struct admin_settings in the settings */
    /* Completes defaults and checks what one key alone cannot say. May be NULL. */
    enum status (*check)(struct config *config, void *settings, struct fault *fault);
    /* Serves until signals_stopping(). ST_OK: done, exit 0; ST_FATAL: fault.exit_code. */
    enum status (*run)(struct frame *frame, struct fault *fault);
    /* A one-shot: a sub-command or a flag such as --create-topics was given. Runs without signals'
     * drain, admin port and readiness; prints to stdout. *handled false: there was none, serve. */
    enum status (*once)(struct frame *frame, bool *handled, enum exit_code *code, struct fault *fault);
};

/* The exit code. */
int frame_main(const struct frame_program *program, int argc, char **argv);

#endif
