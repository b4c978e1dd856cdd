/* What one dead letter says of itself, and what it is when it goes back. Headers in; a verdict, or headers
 * without ours, out. Headers come from outside: nothing in them is trusted beyond its form. Pure memory. */
#include "replay_letter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_text(const struct kafka_record *record, const char *name, char text[REPLAY_TEXT_MAX])
{
    struct span value = {NULL, 0};
    text[0] = '\0';
    if (kafka_record_find_header(record, name, &value) && value.at != NULL) {
        (void)snprintf(text, REPLAY_TEXT_MAX, "%.*s", (int)(value.bytes < 250 ? value.bytes : 250), value.at);
    }
}

static bool read_number(const struct kafka_record *record, const char *name, int64_t *number)
{
    char text[REPLAY_TEXT_MAX], *end = NULL;
    read_text(record, name, text);
    errno = 0;
    *number = strtoll(text, &end, 10);
    return text[0] != '\0' && *end == '\0' && errno == 0;
}

static bool read_origin(struct letter *letter)
{
    int64_t partition = 0;
    read_text(&letter->record, "belfry.origin.topic", letter->topic);
    letter->origin.topic = span_of(letter->topic);
    bool known = letter->topic[0] != '\0' &&
                 read_number(&letter->record, "belfry.origin.partition", &partition) && partition >= 0 &&
                 partition <= INT32_MAX &&
                 read_number(&letter->record, "belfry.origin.offset", &letter->origin.offset) &&
                 read_number(&letter->record, "belfry.origin.timestamp", &letter->origin.timestamp_ms);
    letter->origin.partition = (int32_t)partition;
    return known;
}

static bool is_ours(const struct replay_setup *setup, const char *topic)
{
    return strcmp(topic, setup->topics->events) == 0 || strcmp(topic, setup->topics->devices) == 0;
}

enum replay_verdict letter_judge(struct letter *letter, const struct replay_setup *setup)
{
    int64_t cut = 0;
    read_text(&letter->record, "belfry.error.code", letter->code);
    read_text(&letter->record, "belfry.error.field", letter->field);
    read_text(&letter->record, "belfry.error.message", letter->message);
    if (!read_number(&letter->record, "belfry.replays", &letter->times) || letter->times < 0) {
        letter->times = 0;
    }
    if (!read_origin(letter) || !is_ours(setup, letter->topic)) {
        return REPLAY_NOT_OURS;
    }
    if (setup->code != NULL && strcmp(setup->code, letter->code) != 0) {
        return REPLAY_OTHER_CODE;
    }
    if (setup->since_us != INT64_MIN && letter->record.timestamp_ms < setup->since_us / 1000) {
        return REPLAY_TOO_OLD;
    }
    if (read_number(&letter->record, "belfry.error.cut", &cut)) {
        return REPLAY_CUT;
    }
    return letter->times >= REPLAY_TIMES_MAX ? REPLAY_TIMES_OVER : REPLAY_PUT_BACK;
}

static bool same_origin(const struct replay_origin *a, const struct replay_origin *b)
{
    return a->offset == b->offset && a->partition == b->partition && a->timestamp_ms == b->timestamp_ms &&
           span_same(a->topic, b->topic);
}

void letter_drop_copies(struct letter *letters, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i && letters[i].verdict == REPLAY_PUT_BACK; k++) {
            if (letters[k].verdict == REPLAY_PUT_BACK &&
                same_origin(&letters[i].origin, &letters[k].origin)) {
                letters[i].verdict = REPLAY_DONE_BEFORE;
            }
        }
    }
}

static bool is_ours_to_remove(struct span name)
{
    static const char *const prefixes[] = {"belfry.error.", "belfry.origin.", "belfry.replays"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t bytes = strlen(prefixes[i]);
        if (name.bytes >= bytes && memcmp(name.at, prefixes[i], bytes) == 0) {
            return true;
        }
    }
    return false;
}

size_t letter_headers(const struct letter *letter, struct kafka_header headers[KAFKA_HEADERS_MAX],
                      char times[LETTER_NUMBER_MAX])
{
    size_t count = 0;
    for (size_t i = 0;
         count < KAFKA_HEADERS_MAX - 1 && kafka_record_header(&letter->record, i, &headers[count]); i++) {
        count += is_ours_to_remove(headers[count].name) ? 0 : 1;
    }
    (void)snprintf(times, LETTER_NUMBER_MAX, "%lld", (long long)letter->times + 1);
    headers[count++] = (struct kafka_header){span_of("belfry.replays"), span_of(times)};
    return count;
}
