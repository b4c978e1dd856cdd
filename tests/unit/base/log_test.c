/* What one line looks like, whatever goes in: read back from a pipe in stderr's place. */
#include "base/log.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct capture {
    int saved;
    char path[32];
};

static void capture_begin(struct capture *capture)
{
    strcpy(capture->path, "/tmp/belfry_log_XXXXXX");
    int fd = mkstemp(capture->path);
    cr_assert_geq(fd, 0);
    capture->saved = dup(STDERR_FILENO);
    cr_assert_geq(capture->saved, 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

/* The caller frees it. */
static char *capture_end(struct capture *capture)
{
    dup2(capture->saved, STDERR_FILENO);
    close(capture->saved);
    FILE *file = fopen(capture->path, "rb");
    cr_assert_not_null(file);
    char *text = calloc(1, 4 * 1024 * 1024);
    size_t bytes = fread(text, 1, 4 * 1024 * 1024 - 1, file);
    fclose(file);
    unlink(capture->path);
    cr_assert_eq(strlen(text), bytes, "no NUL in a line");
    return text;
}

/* The line behind its time. */
static const char *after_time(const char *line)
{
    int year, micros, end = 0;
    cr_assert_eq(sscanf(line, "{\"at\":\"%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%6dZ\",%n", &year, &micros, &end), 2,
                 "%s", line);
    cr_assert_geq(year, 2024);
    return line + end;
}

Test(log, writes_every_kind_of_pair)
{
    struct capture capture;
    log_open(LOG_INFO, LOG_JSON, "tester");
    capture_begin(&capture);
    log_event(LOG_WARN, "A-B", "hello \"you\"", log_text("text", "a\nb\tc\\d"), log_int("least", INT64_MIN),
              log_bool("yes", true), log_bool("no", false), log_double("half", 0.5), log_double("nan", NAN),
              log_span("span", (struct span){"xyz", 2}), log_text("null", NULL), log_count("n", 7));
    char *line = capture_end(&capture);
    cr_assert_str_eq(after_time(line),
                     "\"level\":\"warn\",\"id\":\"A-B\",\"msg\":\"hello \\\"you\\\"\",\"program\":\"tester\","
                     "\"text\":\"a\\nb\\tc\\\\d\",\"least\":-9223372036854775808,\"yes\":true,\"no\":false,"
                     "\"half\":0.5,\"nan\":null,\"span\":\"xy\",\"null\":\"\",\"n\":7}\n");
    free(line);
}

Test(log, replaces_what_is_not_utf8)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xf0\x9f\x94\x94", "\xf0\x9f\x94\x94"},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"cut\xe2\x82", "cut\xef\xbf\xbd\xef\xbf\xbd"},
        {"\x01\x1f\x7f", "\\u0001\\u001f\\u007f"},
    };
    log_open(LOG_INFO, LOG_JSON, "t");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct capture capture;
        char expected[128];
        capture_begin(&capture);
        log_event(LOG_INFO, "X", "m", log_text("v", cases[i].in));
        char *line = capture_end(&capture);
        snprintf(expected, sizeof expected, "\"v\":\"%s\"}\n", cases[i].out);
        const char *tail = strstr(line, "\"v\":");
        cr_assert_not_null(tail);
        cr_expect_str_eq(tail, expected, "case %zu", i);
        free(line);
    }
}

Test(log, a_span_may_hold_a_nul)
{
    struct capture capture;
    log_open(LOG_INFO, LOG_JSON, "t");
    capture_begin(&capture);
    log_event(LOG_INFO, "X", "m", log_span("v", (struct span){"a\0b", 3}));
    char *line = capture_end(&capture);
    cr_assert_not_null(strstr(line, "\"v\":\"a\\u0000b\"}"));
    free(line);
}

Test(log, a_line_is_bounded_and_says_so)
{
    struct capture capture;
    char *big = malloc(3 * LOG_LINE_MAX + 1);
    for (size_t i = 0; i < 3 * LOG_LINE_MAX; i += 3)
        memcpy(big + i, "\xe2\x82\xac", 3);
    big[3 * LOG_LINE_MAX] = '\0';
    log_open(LOG_INFO, LOG_JSON, "t");
    capture_begin(&capture);
    log_event(LOG_INFO, "X", big, log_text("one", big), log_text("two", big), log_int("three", 3));
    char *line = capture_end(&capture);
    cr_assert_leq(strlen(line), LOG_LINE_MAX);
    cr_assert_not_null(strstr(line, "\"three\":3,\"cut\":true}\n"), "the short pair still fits");
    cr_assert_null(strstr(line, "\xef\xbf\xbd"), "cut on a character boundary");
    free(line);
    free(big);
}

Test(log, the_level_changes_while_running)
{
    struct capture capture;
    log_open(LOG_INFO, LOG_JSON, "t");
    capture_begin(&capture);
    log_event(LOG_DEBUG, "ONE", "no");
    log_set_level(LOG_DEBUG);
    log_event(LOG_DEBUG, "TWO", "yes");
    log_set_level(LOG_ERROR);
    log_event(LOG_WARN, "THREE", "no");
    char *text = capture_end(&capture);
    cr_assert_null(strstr(text, "ONE"));
    cr_assert_not_null(strstr(text, "TWO"));
    cr_assert_null(strstr(text, "THREE"));
    free(text);
}

Test(log, a_fault_brings_its_detail)
{
    struct capture capture;
    struct fault fault;
    fault_set(&fault, "08006", "connection %s", "lost");
    fault_set_field(&fault, "database.uri");
    log_open(LOG_INFO, LOG_JSON, "t");
    capture_begin(&capture);
    log_fault(LOG_ERROR, "DB-LOST", "no database", ST_RETRY, &fault, log_int("wait_ms", 250));
    log_fault(LOG_ERROR, "DB-LOST", "no database", ST_STOP, &fault);
    char *text = capture_end(&capture);
    cr_assert_not_null(strstr(text, "\"status\":\"retry\",\"code\":\"08006\",\"detail\":\"connection lost\","
                                    "\"field\":\"database.uri\",\"wait_ms\":250}\n"));
    cr_assert_not_null(strstr(text, "\"status\":\"stop\""));
    free(text);
}

Test(log, text_for_people)
{
    struct capture capture;
    log_open(LOG_INFO, LOG_TEXT, "t");
    capture_begin(&capture);
    log_event(LOG_INFO, "RUN-START", "up", log_text("port", "a b"), log_int("n", 1));
    char *text = capture_end(&capture);
    cr_assert_not_null(strstr(text, "Z info RUN-START up port=\"a b\" n=1\n"));
    free(text);
}

enum { THREADS = 4, LINES = 200 };

static void *write_lines(void *context)
{
    char text[512];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < LINES; i++)
        log_event(LOG_INFO, "T", text, log_int("i", i));
    return context;
}

Test(log, lines_of_threads_do_not_mix)
{
    struct capture capture;
    pthread_t threads[THREADS];
    log_open(LOG_INFO, LOG_JSON, "t");
    capture_begin(&capture);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, write_lines, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    char *text = capture_end(&capture);
    int lines = 0;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL && *line != '\0'; line = strsep(&rest, "\n")) {
        cr_assert_eq(strncmp(line, "{\"at\":\"", 7), 0);
        cr_assert_eq(line[strlen(line) - 1], '}');
        lines++;
    }
    cr_assert_eq(lines, THREADS * LINES);
    free(text);
}

Test(log, a_gate_lets_the_first_through_and_then_one_a_minute)
{
    struct log_gate gate = {.passed = false};
    int64_t left_out = -1;
    cr_assert(log_gate_passes(&gate, "08006", 0, &left_out));
    cr_assert_eq(left_out, 0);
    for (int64_t at_ms = 4000; at_ms < LOG_AGAIN_MS; at_ms += 4000)
        cr_assert_not(log_gate_passes(&gate, "08006", at_ms, &left_out));
    cr_assert(log_gate_passes(&gate, "08006", LOG_AGAIN_MS, &left_out));
    cr_assert_eq(left_out, 14);
    cr_assert(log_gate_passes(&gate, "28P01", LOG_AGAIN_MS + 1, &left_out), "another cause is news");
    cr_assert_eq(left_out, 0);
    gate = (struct log_gate){.passed = false};
    cr_assert(log_gate_passes(&gate, "28P01", LOG_AGAIN_MS + 2, &left_out), "it worked in between");
}
