/* The calls about exports (contracts/reader-api.md 'Exports'): the columns of feed/calls.c's table. An export
 * is the user's own, in this workspace; anybody else's is not found. Whether its feed may still be read is
 * judged with what each statement saw of the membership. */
#ifndef BELFRY_FEED_EXPORTS_H
#define BELFRY_FEED_EXPORTS_H

#include "feed/calls.h"

enum { EXPORTS_RETRY_S = 1, EXPORTS_OPEN_RETRY_S = 5 };

enum status exports_none(struct asked *asked, const struct parameters_input *input, struct fault *fault);
enum status exports_order(struct asked *asked, const struct parameters_input *input, struct fault *fault);
enum status exports_rows(struct asked *asked, const struct parameters_input *input, struct fault *fault);
enum status exports_pages(struct asked *asked, const struct parameters_input *input, struct fault *fault);

enum status exports_order_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault);
enum status exports_list_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault);
/* The export and the range of its rows that is asked for. */
enum status exports_look_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault);
enum status exports_delete_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault);

enum status exports_order_write(const struct asked *asked, const struct db_result *result,
                                const struct keys *keys, struct answer *answer, struct fault *fault);
enum status exports_list_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault);
enum status exports_look_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault);
enum status exports_delete_write(const struct asked *asked, const struct db_result *result,
                                 const struct keys *keys, struct answer *answer, struct fault *fault);
/* Only judges whether the rows may be read: feed/download.h writes them. */
enum status exports_rows_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault);
enum status exports_pages_write(const struct asked *asked, const struct db_result *result,
                                const struct keys *keys, struct answer *answer, struct fault *fault);

/* Whether the asker may read the feed. ST_REJECT not_a_member, role_required. */
enum status exports_judge(const struct source *source, const struct export_asker *asker, struct fault *fault);
/* Whether the export in the result may be read, and is there whole. ST_REJECT with the code for the client.
 */
enum status exports_judge_rows(const struct feeds *feeds, const struct db_result *result,
                               struct export *export, struct fault *fault);

/* The filters of this feed, as the texts of body name them, as the feed's query has them. ST_REJECT
 * invalid_body. */
enum status exports_filters(const struct feeds_entry *feed, const struct export_body *body,
                            struct page_query *query, struct fault *fault);
/* An order's filters as they are kept, and its hash, from a query. ST_REJECT invalid_body: too long. */
enum status exports_normalise(const struct page_query *query, struct exports_ask *ask, struct fault *fault);
/* The order of an export of this feed, under the limits of the settings. Points into source and ask. */
struct export_order exports_make_order(const struct export_settings *settings, const struct source *source,
                                       const struct exports_ask *ask);

#endif
