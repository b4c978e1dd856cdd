/* One dead letter of --replay-dlq: what its headers say, and the headers it goes back with. */
#ifndef BELFRY_SRC_INGEST_REPLAY_LETTER_H
#define BELFRY_SRC_INGEST_REPLAY_LETTER_H

#include "ingest/replay.h"
#include "io/kafka.h"
#include "store/replays.h"

enum { LETTER_NUMBER_MAX = 24 };

struct letter {
    struct kafka_record record;
    struct replay_origin origin; /* in the record's headers */
    char topic[REPLAY_TEXT_MAX], code[REPLAY_TEXT_MAX], field[REPLAY_TEXT_MAX], message[REPLAY_TEXT_MAX];
    int64_t times; /* put back before this */
    enum replay_verdict verdict;
    bool acknowledged;
};

/* Reads the headers into the letter and says what becomes of it; the table `replays` is not asked.
 * REPLAY_PUT_BACK: origin is known and its topic one of ours. */
enum replay_verdict letter_judge(struct letter *letter, const struct replay_setup *setup);
/* A letter is in the topic once a delivery: those that are in this batch twice become REPLAY_DONE_BEFORE. */
void letter_drop_copies(struct letter *letters, size_t count);
/* The headers it came with before it was dead-lettered, and belfry.replays counted up in times, which must
 * live as long as they do. Gives their number. */
size_t letter_headers(const struct letter *letter, struct kafka_header headers[KAFKA_HEADERS_MAX],
                      char times[LETTER_NUMBER_MAX]);

#endif
