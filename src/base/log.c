/* Pairs in, one line out. The line is built in a stack buffer of LOG_LINE_MAX bytes and written at once,
 * so lines of several threads and processes do not mix (a pipe keeps writes up to 4 KiB whole, a mutex
 * keeps our own threads apart beyond that). A pair that does not fit is undone whole. A line that cannot
 * be written is lost: logging never blocks or ends the program. */
#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int threshold = LOG_INFO;
static enum log_format line_format = LOG_JSON;
static const char *program_name = "";
static pthread_mutex_t write_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Room kept for ,"cut":true} and the newline. */
enum { TAIL_BYTES = 16 };

struct line {
    char bytes[LOG_LINE_MAX];
    size_t used;
    bool full;
};

void log_open(enum log_level level, enum log_format format, const char *program)
{
    line_format = format;
    program_name = program;
    log_set_level(level);
}

void log_set_level(enum log_level level)
{
    atomic_store(&threshold, (int)level);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load(&threshold);
}

static const char *level_name(enum log_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    return names[level];
}

static void put(struct line *line, const char *bytes, size_t count)
{
    if (line->full || count > sizeof line->bytes - TAIL_BYTES - line->used) {
        line->full = true;
        return;
    }
    memcpy(line->bytes + line->used, bytes, count);
    line->used += count;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* How many bytes the UTF-8 character at at has; 0 when it is none (RFC 3629: no surrogates, nothing
 * overlong, nothing above U+10FFFF). */
static size_t character_bytes(const unsigned char *at, size_t left)
{
    unsigned char lead = at[0];
    size_t bytes = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : 4;
    if (bytes == 1)
        return 1;
    if (lead < 0xc2 || lead > 0xf4 || bytes > left)
        return 0;
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    return bytes;
}

static void put_escaped(struct line *line, unsigned char byte)
{
    char escape[8];
    const char *shorthand = byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : byte == '\t' ? "\\t" : NULL;
    if (shorthand != NULL)
        snprintf(escape, sizeof escape, "%s", shorthand);
    else if (byte == '"' || byte == '\\')
        snprintf(escape, sizeof escape, "\\%c", byte);
    else
        snprintf(escape, sizeof escape, "\\u%04x", byte);
    put_text(line, escape);
}

static void put_string(struct line *line, struct span text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    put(line, "\"", 1);
    size_t i = 0, plain = 0; /* bytes from plain to i go out as they are */
    while (i < text.bytes && !line->full) {
        size_t bytes = character_bytes(at + i, text.bytes - i);
        if (bytes > 1 || (bytes == 1 && at[i] >= 0x20 && at[i] != '"' && at[i] != '\\' && at[i] != 0x7f)) {
            i += bytes;
            continue;
        }
        put(line, text.at + plain, i - plain);
        if (bytes == 0)
            put_text(line, "\xef\xbf\xbd"); /* U+FFFD */
        else
            put_escaped(line, at[i]);
        plain = ++i;
    }
    if (!line->full && i > plain)
        put(line, text.at + plain, i - plain);
    put(line, "\"", 1);
}

static void put_value(struct line *line, const struct log_pair *pair)
{
    char number[40];
    switch (pair->kind) {
    case LOG_KIND_TEXT:
        put_string(line, pair->text);
        return;
    case LOG_KIND_INT:
        snprintf(number, sizeof number, "%lld", (long long)pair->integer);
        break;
    case LOG_KIND_BOOL:
        snprintf(number, sizeof number, "%s", pair->integer ? "true" : "false");
        break;
    case LOG_KIND_DOUBLE:
        if (isfinite(pair->real))
            snprintf(number, sizeof number, "%.10g", pair->real);
        else
            snprintf(number, sizeof number, "null");
        break;
    case LOG_KIND_END:
        return;
    }
    put_text(line, number);
}

/* Whole or not at all. A text too long for what is left is cut on a character boundary first. */
static bool put_pair(struct line *line, const struct log_pair *pair)
{
    size_t before = line->used;
    struct log_pair shorter = *pair;
    for (;;) {
        if (line_format == LOG_JSON)
            put_text(line, ",\"");
        else
            put_text(line, " ");
        put_text(line, pair->key);
        put_text(line, line_format == LOG_JSON ? "\":" : "=");
        put_value(line, &shorter);
        if (!line->full)
            return shorter.text.bytes == pair->text.bytes;
        line->used = before;
        line->full = false;
        if (pair->kind != LOG_KIND_TEXT || shorter.text.bytes < 64)
            return false;
        shorter.text.bytes /= 2;
        while (shorter.text.bytes > 0 && ((unsigned char)shorter.text.at[shorter.text.bytes] & 0xc0) == 0x80)
            shorter.text.bytes--;
    }
}

static void put_time(struct line *line)
{
    struct timespec now;
    struct tm parts;
    char text[48];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t used = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + used, sizeof text - used, ".%06ldZ", now.tv_nsec / 1000);
    put_text(line, text);
}

static void put_head(struct line *line, enum log_level level, const char *id, const char *message)
{
    if (line_format == LOG_TEXT) {
        put_time(line);
        put_text(line, " ");
        put_text(line, level_name(level));
        put_text(line, " ");
        put_text(line, id);
        put_text(line, " ");
        put_text(line, message);
        return;
    }
    put_text(line, "{\"at\":\"");
    put_time(line);
    put_text(line, "\",\"level\":\"");
    put_text(line, level_name(level));
    put_text(line, "\",\"id\":");
    put_string(line, span_of(id));
    (void)put_pair(line,
                   &(const struct log_pair){.kind = LOG_KIND_TEXT, .key = "msg", .text = span_of(message)});
    (void)put_pair(line, &(const struct log_pair){
                             .kind = LOG_KIND_TEXT, .key = "program", .text = span_of(program_name)});
}

/* The tail always fits: put never touches the last TAIL_BYTES. */
static void finish(struct line *line, bool cut)
{
    const char *tail = line_format == LOG_JSON ? (cut ? ",\"cut\":true}\n" : "}\n") : (cut ? " ...\n" : "\n");
    size_t bytes = strlen(tail);
    memcpy(line->bytes + line->used, tail, bytes);
    line->used += bytes;
    pthread_mutex_lock(&write_mutex);
    ssize_t written;
    do
        written = write(STDERR_FILENO, line->bytes, line->used);
    while (written < 0 && errno == EINTR);
    pthread_mutex_unlock(&write_mutex);
}

static bool put_pairs(struct line *line, const struct log_pair *pairs)
{
    bool whole = true;
    for (; pairs->kind != LOG_KIND_END; pairs++)
        whole = put_pair(line, pairs) && whole;
    return whole;
}

void log_event_pairs(enum log_level level, const char *id, const char *message, const struct log_pair *pairs)
{
    if (!log_enabled(level))
        return;
    int saved = errno;
    struct line line = {.used = 0};
    put_head(&line, level, id, message);
    finish(&line, !put_pairs(&line, pairs));
    errno = saved;
}

void log_fault_pairs(enum log_level level, const char *id, const char *message, const struct log_cause *cause,
                     const struct log_pair *pairs)
{
    if (!log_enabled(level))
        return;
    int saved = errno;
    struct line line = {.used = 0};
    put_head(&line, level, id, message);
    const struct log_pair detail[] = {log_text("status", status_name(cause->status)),
                                      log_text("code", cause->fault->code),
                                      log_text("detail", cause->fault->text), log_end()};
    bool whole = put_pairs(&line, detail);
    if (cause->fault->field[0] != '\0') {
        const struct log_pair field[] = {log_text("field", cause->fault->field), log_end()};
        whole = put_pairs(&line, field) && whole;
    }
    finish(&line, !(put_pairs(&line, pairs) && whole));
    errno = saved;
}

bool log_gate_passes(struct log_gate *gate, const char *code, int64_t now_ms, int64_t *left_out)
{
    bool same = gate->passed && strncmp(gate->code, code, sizeof gate->code - 1) == 0;
    if (same && now_ms < gate->next_ms) {
        gate->left_out++;
        return false;
    }
    *left_out = gate->left_out;
    *gate = (struct log_gate){.passed = true, .next_ms = now_ms + LOG_AGAIN_MS};
    snprintf(gate->code, sizeof gate->code, "%s", code);
    return true;
}
