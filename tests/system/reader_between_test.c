/* reader_1: what happens between two pages of a walk, as a matrix: under each contract, in each direction,
 * after each page, for rows of times of their own and rows of one instant. What must be shown is worked out
 * here from the contract's promises (contracts/reader-api.md), letter by letter; nothing is written down. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reader_steps.h"

/* Ten rows; letters between them are those of what comes later. Downwards the pages are trp nlj hfd b, and
 * upwards from the last one hfd nlj trp. */
static const char rows[] = "bdfhjlnprt";

enum { ROWS = sizeof rows - 1, LIMIT = 3, PAGES = 3, LETTERS = 26, LETTERS_MAX = 64, SQL_MAX = 512 };

enum event { DELETED, INSERTED, LATE };
static const char *const event_names[] = {"deleted", "inserted", "late"};

struct cell {
    enum event event;
    bool boundary, newer, ties;
    int page; /* the event comes after this one, from 1 on */
    char touched[LETTERS_MAX];
};

struct walk {
    struct client *c;
    const struct cell *cell;
    char query[96];
    char cursor[CURSOR_MAX], prev[CURSOR_MAX], head_prev[CURSOR_MAX];
    char page[NAMES_MAX];   /* the last one, as it came */
    char shown[NAMES_MAX];  /* all, in the walk's order */
    char exists[NAMES_MAX]; /* what stands in the table, rising */
    bool more;
};

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void insert_sql(const struct cell *cell, const char *letters, char *sql)
{
    snprintf(sql, SQL_MAX,
             "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
             " SELECT ('0199a000-0000-7000-8000-0000000000' || to_hex(ascii(n)))::uuid, 'w', 'u1', 't', n,"
             " timestamptz '2026-03-21T09:00:00Z' + %d * (ascii(n) - 96) * interval '1 s'"
             " FROM unnest(string_to_array('%s', NULL)) AS n",
             cell->ties ? 0 : 1, letters);
}

/* The bound at the time of this letter's row, or far above all. */
static void bound_at_letter(struct client *c, const struct cell *cell, char letter)
{
    char instant[64];
    snprintf(instant, sizeof instant, "2026-03-21T09:%02d:%02dZ", letter == '\0',
             letter == '\0' || cell->ties ? 0 : letter - 'a' + 1);
    bound_at(c, instant);
}

static void change(struct walk *walk, struct db *late)
{
    char sql[SQL_MAX];
    const struct cell *cell = walk->cell;
    size_t at = 0;
    if (cell->event == DELETED) {
        world_exec(&walk->c->w, "DELETE FROM notifications WHERE title = ANY (string_to_array('%s', NULL))",
                   cell->touched);
    } else if (cell->event == INSERTED) {
        insert_sql(cell, cell->touched, sql);
        world_exec(&walk->c->w, "%s", sql);
    } else {
        late_commit(late);
        bound_at_letter(walk->c, cell, '\0');
    }
    for (int i = 0; i < LETTERS; i++) {
        char letter = (char)('a' + i);
        bool touched = strchr(cell->touched, letter) != NULL;
        if (cell->event == DELETED ? strchr(rows, letter) != NULL && !touched
                                   : strchr(rows, letter) != NULL || (touched && !cell->boundary))
            walk->exists[at++] = letter;
    }
    walk->exists[at] = '\0';
}

/* ---- pages --------------------------------------------------------------------------------------------- */

/* Reads the page at `from`, and where it goes on and turns round. */
static void read_page(struct walk *walk, const char *from, bool turn)
{
    char query[URL_MAX - 256];
    snprintf(query, sizeof query, "%s&cursor=%s", walk->query, from);
    json_t *page = client_page(walk->c, query);
    names_of(page, walk->page);
    if (!turn) {
        snprintf(walk->cursor, CURSOR_MAX, "%s", page_cursor(page));
        snprintf(walk->prev, CURSOR_MAX, "%s", prev_cursor(page));
        walk->more = page_has_more(page);
    }
    json_decref(page);
}

/* Puts the page to what was shown, in the walk's order. */
static void add_page(struct walk *walk, bool newer)
{
    size_t count = strlen(walk->page), at = strlen(walk->shown);
    cr_assert_leq(count, (size_t)LIMIT);
    for (size_t i = 0; i < count; i++)
        walk->shown[at++] = walk->page[newer ? count - 1 - i : i];
    walk->shown[at] = '\0';
}

/* The page the walk turns round to, right behind its last one: the nearest rows beyond the page's edge. */
static void check_turn(struct walk *walk)
{
    char expected[LIMIT + 1] = "";
    const struct cell *cell = walk->cell;
    size_t count = strlen(walk->page), found = 0, rows_there = strlen(walk->exists);
    if (count == 0)
        return;
    char edge = walk->page[cell->newer ? count - 1 : 0];
    for (size_t i = 0; i < rows_there && found < LIMIT; i++) {
        char letter = walk->exists[cell->newer ? rows_there - 1 - i : i];
        if (cell->newer ? letter < edge : letter > edge)
            expected[found++] = letter;
    }
    for (size_t i = 0; !cell->newer && i < found / 2; i++) {
        char swapped = expected[i];
        expected[i] = expected[found - 1 - i];
        expected[found - 1 - i] = swapped;
    }
    read_page(walk, walk->prev, true);
    cr_assert_str_eq(walk->page, expected, "turned round at %c: '%s', not '%s'", edge, walk->page, expected);
}

/* To where the measured walk begins: the head, or the bottom turned round. */
static void go_to_start(struct walk *walk)
{
    read_page(walk, "", false);
    snprintf(walk->head_prev, CURSOR_MAX, "%s", walk->prev);
    if (!walk->cell->newer) {
        add_page(walk, false);
        return;
    }
    while (walk->cursor[0] != '\0')
        read_page(walk, walk->cursor, false);
    snprintf(walk->cursor, CURSOR_MAX, "%s", walk->prev);
}

/* ---- what must be shown -------------------------------------------------------------------------------- */

static bool is_beyond(const struct cell *cell, char letter, char place)
{
    return cell->newer ? letter > place : letter < place;
}

/* place: the last letter shown when it happened. */
static void work_out(const struct cell *cell, char place, char *expected)
{
    size_t at = 0;
    /* A bound among rows of one instant stands before all of them: the bottom row comes once more. */
    bool again = cell->event == LATE && cell->ties;
    for (int i = 0; i < LETTERS; i++) {
        char letter = (char)(cell->newer ? 'a' + i : 'z' - i);
        bool row = strchr(rows, letter) != NULL, touched = strchr(cell->touched, letter) != NULL;
        bool shown = row && !(cell->newer && letter == rows[0] && !again);
        if (cell->event == DELETED)
            shown = shown && !(touched && is_beyond(cell, letter, place));
        else if (touched)
            shown =
                !cell->boundary && ((cell->newer && cell->event == LATE) || is_beyond(cell, letter, place));
        if (shown)
            expected[at++] = letter;
    }
    expected[at] = '\0';
}

/* Upwards from the head page, after all has committed: what stands above the bound of then, each once. */
static void check_catch_up(struct walk *walk)
{
    char expected[LETTERS_MAX], from = walk->cell->touched[0];
    size_t at = 0;
    for (int i = 0; i < LETTERS; i++) {
        char letter = (char)('a' + i);
        bool touched = letter == from;
        bool above = walk->cell->ties || letter > (from < rows[ROWS - 1] ? from : rows[ROWS - 1]);
        if (touched ? !walk->cell->boundary : above && strchr(rows, letter) != NULL)
            expected[at++] = letter;
    }
    expected[at] = '\0';
    walk->shown[0] = '\0';
    snprintf(walk->cursor, CURSOR_MAX, "%s", walk->head_prev);
    do {
        read_page(walk, walk->cursor, false);
        add_page(walk, true);
    } while (walk->more);
    printf(", then newer '%s'", walk->shown);
    cr_assert_str_eq(walk->shown, expected, "newer from the head: '%s', not '%s'", walk->shown, expected);
}

/* ---- one cell ------------------------------------------------------------------------------------------ */

static void walk_cell(struct client *c, const struct cell *cell, int number)
{
    static const char *const filters[] = {"", "&unread=true", "&event_type=t"};
    static struct walk walk;
    char sql[SQL_MAX], expected[LETTERS_MAX];
    memset(&walk, 0, sizeof walk);
    walk.c = c;
    walk.cell = cell;
    snprintf(walk.query, sizeof walk.query, "limit=%d&contract=%s%s", LIMIT,
             cell->boundary ? "boundary" : "live", filters[number % 3]);
    world_exec(&c->w, "DELETE FROM notifications");
    insert_sql(cell, rows, sql);
    world_exec(&c->w, "%s", sql);
    struct db *late = NULL;
    if (cell->event == LATE) {
        insert_sql(cell, cell->touched, sql);
        late = late_open(c, sql);
    }
    char held = cell->event == LATE ? cell->touched[0] : (char)0;
    bound_at_letter(c, cell, held);
    go_to_start(&walk);
    int page = cell->newer ? 0 : 1;
    char place = cell->newer ? rows[0] : (char)0;
    bool ended = false;
    while (!ended) {
        if (page == cell->page) {
            size_t count = strlen(walk.shown);
            if (count > 0)
                place = walk.shown[count - 1];
            change(&walk, late);
        }
        bool turn = page == cell->page;
        read_page(&walk, walk.cursor, false);
        add_page(&walk, cell->newer);
        page++;
        ended = cell->newer ? page > cell->page && walk.page[0] == '\0' : walk.cursor[0] == '\0';
        if (turn && cell->event == DELETED)
            check_turn(&walk);
        cr_assert_lt(page, 20, "the walk does not end");
    }
    work_out(cell, place, expected);
    printf("  %-8s %-8s %s %s, after page %d '%s'%s: '%s'", event_names[cell->event],
           cell->boundary ? "boundary" : "live", cell->newer ? "newer" : "older",
           cell->ties ? "one instant" : "own times", cell->page, cell->touched, filters[number % 3],
           walk.shown);
    cr_assert_str_eq(walk.shown, expected, "'%s', not '%s'", walk.shown, expected);
    if (cell->event == LATE && !cell->newer)
        check_catch_up(&walk);
    printf("\n");
}

/* The lowest row of the page after which it happens. */
static int page_lowest(const struct cell *cell)
{
    return cell->newer ? 1 + LIMIT * (cell->page - 1) : ROWS - LIMIT * cell->page;
}

enum { PLACES = 3, DELETIONS = 5 };

static void touch_between(struct cell *cell, int place)
{
    int lowest = page_lowest(cell);
    const char letters[PLACES] = {(char)(rows[lowest + LIMIT - 1] + 1), (char)(rows[lowest] + 1),
                                  (char)(rows[lowest] - 1)}; /* above, at, below */
    snprintf(cell->touched, sizeof cell->touched, "%c", letters[place]);
}

/* Of the page just read: its first row, its last, all; of the next one: all; of both. */
static void touch_rows(struct cell *cell, int which)
{
    int lowest = page_lowest(cell);
    int next = cell->newer ? lowest + LIMIT : lowest - LIMIT, from = next < 0 ? 0 : next;
    int count = next + LIMIT - from;
    bool high = (which == 0) != cell->newer;
    if (which > 2 && from >= ROWS)
        cell->touched[0] = '\0'; /* the last page has no next one */
    else if (which < 2)
        snprintf(cell->touched, sizeof cell->touched, "%c", rows[high ? lowest + LIMIT - 1 : lowest]);
    else
        snprintf(cell->touched, sizeof cell->touched, "%.*s%.*s", which == 3 ? 0 : LIMIT, rows + lowest,
                 which == 2 ? 0 : count, rows + (from < ROWS ? from : 0));
}

static void walk_all(const char *name, enum event event, int variants)
{
    static struct client c;
    int cells = 0;
    client_open(&c, name);
    for (int i = 0; i < 2 * 2 * 2 * PAGES * variants; i++) {
        struct cell cell = {.event = event,
                            .page = 1 + i / variants % PAGES,
                            .boundary = i / variants / PAGES % 2 != 0,
                            .newer = i / variants / PAGES / 2 % 2 != 0,
                            .ties = i / variants / PAGES / 4 != 0};
        if (event == DELETED)
            touch_rows(&cell, i % variants);
        else
            touch_between(&cell, i % variants);
        if (cell.touched[0] == '\0')
            continue;
        walk_cell(&c, &cell, i + i / variants);
        cells++;
    }
    printf("%s: %d walks, each row shown as its contract says\n", event_names[event], cells);
    cr_expect_geq(cells, 2 * 2 * 2 * PAGES * PLACES);
    client_close(&c);
}

/* The last row of a page, all of a page, what is next. */
Test(reader, deleted_between)
{
    walk_all("reader_deleted", DELETED, DELETIONS);
}

/* Rows that commit between two pages, above, at and below the one just read. */
Test(reader, inserted_between)
{
    walk_all("reader_inserted", INSERTED, PLACES);
}

/* Rows whose transaction took its timestamp before the walk and commits after each page. */
Test(reader, late_between)
{
    walk_all("reader_late_each", LATE, PLACES);
}
