/* Steps of a walk that a test names by letters: rows whose titles are letters, pages as the letters they
 * show, the bound moved by hand, sessions that commit late. All is user u1's in workspace w; 09:00:00 of one
 * day is where times count from. */
#ifndef BELFRY_TESTS_READER_STEPS_H
#define BELFRY_TESTS_READER_STEPS_H

#include "io/db.h"
#include "reader_client.h"

enum { NAMES_MAX = 4096 };

/* Moves the bound as the reconciler would. */
void bound_at(struct client *c, const char *instant);
/* One row a letter of names, `step` apart from `second` of the minute on; its id ends with the letter. Up to
 * c they are of category low, the others high. */
void put_names(struct client *c, const char *names, int second, const char *step);
/* The titles of a page, in order. */
void names_of(const json_t *page, char *names /* [NAMES_MAX] */);
const char *prev_cursor(const json_t *page);
/* A page must show these titles; its cursors are copied out where wanted. */
void expect(const struct client *c, const char *query, const char *cursor, const char *names, char *next,
            char *prev);

/* A session of its own that began a transaction and ran this; late_commit ends both. */
struct db *late_open(struct client *c, const char *sql);
/* The same with one row inserted, `at` seconds after 09:00:00. */
struct db *late_begin(struct client *c, const char *name, const char *at);
void late_commit(struct db *db);

#endif
