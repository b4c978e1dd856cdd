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
#include "run_settings.h"

struct frame {
    const struct frame_program *program;
    struct options *options;
    struct config *config; /* for config_require */
    const void *settings;  /* the binary's struct */
    const struct run_settings *run;
    struct clock clock;
    struct metrics *metrics;     /* served on the admin port; NULL in a one-shot */
    struct readiness *readiness; /* a part that is not ready says why; NULL in a one-shot */
};

struct frame_program {
    const char *name;    /* belfry-dispatcher */
    const char *summary; /* one line for --help */
    struct options_table options;
    struct config_table config;
    size_t settings_bytes;
    size_t run_offset, admin_offset; /* of struct run_settings, struct admin_settings in the settings */
    /* What one key alone cannot say, and what serving needs; may add warnings to config. Called before
     * serving, by --check-config and by frame_reload. */
    enum status (*check)(struct config *config, const void *settings, struct fault *fault);
    /* Serves until signals_stopping(). ST_OK: done, exit 0; anything else: fault.exit_code. */
    enum status (*run)(struct frame *frame, struct fault *fault);
    bool run_reloads; /* on SIGHUP run calls frame_reload; else a thread of the frame does */
    /* A one-shot: a sub-command or a flag such as --create-topics. Prints to stdout; no signals' drain, no
     * admin port. *handled false: none was asked for, serve. May be NULL. */
    enum status (*once)(struct frame *frame, bool *handled, enum exit_code *code, struct fault *fault);
};

/* For SIGHUP (signals_take_reload): reads the configuration again from where it came, checks it, hands the
 * new settings to take (may be NULL), which copies what it keeps, for they are gone when this returns; then
 * sets the log level. Logs what came of it: a configuration that is not good changes nothing. Blocking file
 * reads.
 */
void frame_reload(const struct frame *frame,
                  enum status (*take)(void *context, const void *settings, struct fault *fault),
                  void *context);

/* The same without a word, and nothing but take: for loops that have secrets of their own to renew, in a
 * program whose frame reloads by itself and says what was not good. */
void frame_take_again(const struct frame *frame,
                      enum status (*take)(void *context, const void *settings, struct fault *fault),
                      void *context);

/* The exit code. A run that has not ended shutdown_timeout + 5 s after the stop was asked for is ended. */
int frame_main(const struct frame_program *program, int argc, char **argv);

#endif
