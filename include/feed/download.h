/* The whole of an export as a stream: NDJSON or CSV, from an ordinal on, in bounded memory
 * (contracts/reader-api.md 'Exports').
 *
 * A range of rows is one statement; the next is asked for when the client has taken the last, so that one
 * that is slow holds a range (128 KiB and one row) and the stream's own buffer, and no place on a link. Each
 * range is judged as the first was: membership, role, expiry. What cannot go on is cut: no final chunk. */
#ifndef BELFRY_FEED_DOWNLOAD_H
#define BELFRY_FEED_DOWNLOAD_H

#include "feed/calls.h"
#include "feed/serve.h"

enum { DOWNLOADS_MAX = 64 }; /* at once in a process; more are told 503 */

/* Answers the request of exports_rows_write's call, whose answer this is, and takes asked. */
void download_begin(struct serve *serve, struct asked *asked, const struct db_result *result);
/* The answer of a further range; takes asked, not the result. */
void download_answer(struct serve *serve, struct asked *asked, const struct db_answer *answer);
/* It cannot go on; takes asked. */
void download_cut(struct serve *serve, struct asked *asked, const char *code);
/* Only memory; the stream is void already. NULL is fine. */
void download_free(struct download *download);

#endif
