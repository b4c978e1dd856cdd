/* One event, one line, one write(2) to stderr: JSON by default, a plain line for people with LOG_TEXT.
 *
 * {"at":"2026-03-21T09:00:00.123456Z","level":"info","id":"PREFS-OPEN","msg":"…","program":"…", pairs…}
 *
 * Only the loops and bin/ call this; lower layers fill a fault. Never a token, a title, a body, a secret
 * or a connection string with a password. A line is at most LOG_LINE_MAX bytes: pairs that do not fit are
 * left out and "cut":true says so. Strings are escaped; bytes that are not UTF-8 become U+FFFD.
 * Thread safe. The level is one of the two globals of the program. */
#ifndef BELFRY_BASE_LOG_H
#define BELFRY_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"

enum { LOG_LINE_MAX = 8192 };

/* In the order of [run] log_level's choices. */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_JSON, LOG_TEXT };

/* Once, before any thread starts; without it the level is info and the format JSON. program must live on. */
void log_open(enum log_level level, enum log_format format, const char *program);
/* At any time, from any thread. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

enum log_kind { LOG_KIND_END, LOG_KIND_TEXT, LOG_KIND_INT, LOG_KIND_BOOL, LOG_KIND_DOUBLE };

struct log_pair {
    enum log_kind kind;
    const char *key; /* a fixed word of ours: lower case and '_' */
    struct span text;
    int64_t integer;
    double real;
};

static inline struct log_pair log_span(const char *key, struct span value)
{
    return (struct log_pair){.kind = LOG_KIND_TEXT, .key = key, .text = value};
}

/* NULL is written as "". */
static inline struct log_pair log_text(const char *key, const char *value)
{
    return log_span(key, span_of(value));
}

static inline struct log_pair log_int(const char *key, int64_t value)
{
    return (struct log_pair){.kind = LOG_KIND_INT, .key = key, .integer = value};
}

static inline struct log_pair log_count(const char *key, size_t value)
{
    return log_int(key, (int64_t)value);
}

static inline struct log_pair log_bool(const char *key, bool value)
{
    return (struct log_pair){.kind = LOG_KIND_BOOL, .key = key, .integer = value};
}

/* Not a number and the infinities are written as null. */
static inline struct log_pair log_double(const char *key, double value)
{
    return (struct log_pair){.kind = LOG_KIND_DOUBLE, .key = key, .real = value};
}

static inline struct log_pair log_end(void)
{
    return (struct log_pair){.kind = LOG_KIND_END};
}

/* log_event(level, "ID", "message", pairs…): the end mark is added by the macro.
 *     log_event(LOG_INFO, "ING-BATCH", "batch committed", log_count("events", n), log_int("ms", took)); */
#define log_event(level, id, ...)                                                                            \
    log_event_pairs((level), (id), LOG_HEAD_(__VA_ARGS__, 0),                                                \
                    (const struct log_pair[]){LOG_TAIL_(__VA_ARGS__, log_end())})
void log_event_pairs(enum log_level level, const char *id, const char *message, const struct log_pair *pairs);

/* log_fault(level, "ID", "message", status, &fault, pairs…): adds status, code, field (when there is one)
 * and detail from the fault, before the pairs. */
#define log_fault(level, id, message, status, ...)                                                           \
    log_fault_pairs((level), (id), (message),                                                                \
                    &(const struct log_cause){(status), LOG_HEAD_(__VA_ARGS__, 0)},                          \
                    (const struct log_pair[]){LOG_TAIL_(__VA_ARGS__, log_end())})
struct log_cause {
    enum status status;
    const struct fault *fault;
};
void log_fault_pairs(enum log_level level, const char *id, const char *message, const struct log_cause *cause,
                     const struct log_pair *pairs);

/* For a line that would come again and again while something is away: the first passes at once, and so does
 * one with another code; the same passes once in LOG_AGAIN_MS. *left_out: how many did not pass since the
 * last that did. {0} begins, and again when it works. Not thread safe: each loop has its own. */
enum { LOG_AGAIN_MS = 60 * 1000 };
struct log_gate {
    char code[FAULT_CODE_MAX];
    bool passed;
    int64_t next_ms;
    int64_t left_out;
};
bool log_gate_passes(struct log_gate *gate, const char *code, int64_t now_ms, int64_t *left_out);

#define LOG_HEAD_(first, ...) first
#define LOG_TAIL_(first, ...) __VA_ARGS__

#endif
