/* Seats, starts, seeks and the offsets-only commit. */
#include <criterion/criterion.h>
#include <string.h>

#include "store_fixture.h"

Test(offsets, seats_fence_out_the_one_before)
{
    struct fixture *f = fixture_open("off_seat", 2);
    struct fault fault;
    struct offsets_seat old[2] = {{.partition = 0}, {.partition = 1}}, mine = {.partition = 1};
    cr_assert_eq(offsets_read(f->db, &f->scope, old, 2, &fault), ST_OK);
    cr_assert_eq(old[0].generation, 1);
    f->parts[0].end = 5;
    f->parts[0].records = f->parts[0].events = 5;
    f->parts[1].end = f->parts[1].records = f->parts[1].tombstones = 7;
    cr_assert_eq(offsets_commit(f->db, &f->scope, f->parts, 2, &fault), ST_OK, "%s", fault.text);
    fixture_next(f);

    struct offsets_scope other = f->scope;
    other.owner++;
    cr_assert_eq(offsets_seat(f->db, &other, &mine, 1, &fault), ST_OK);
    cr_assert_eq(mine.generation, 2);
    cr_assert_eq(mine.next_offset, 7); /* what the one before left */
    /* The one before: neither starts nor commits, on any of its parts. */
    f->parts[0].end++;
    f->parts[0].records = f->parts[0].tombstones = 1;
    cr_assert_eq(offsets_commit(f->db, &f->scope, f->parts, 2, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "fenced");
    cr_assert_eq(offsets_start(f->db, &f->scope, &old[1], 1, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "fenced");
    cr_assert_eq(world_count(&f->world, "SELECT sum(next_offset) FROM partition_offsets"), 12);
    world_check_books(&f->world);

    /* An operator's seek fences out the owner. */
    cr_assert_eq(offsets_seek(f->db, &f->scope, 1, 100, &fault), ST_OK);
    cr_assert_eq(offsets_read(f->db, &f->scope, &mine, 1, &fault), ST_OK);
    cr_assert_eq(mine.generation, 3);
    cr_assert_eq(mine.next_offset, 100);
    cr_assert_eq(offsets_seek(f->db, &f->scope, 9, 0, &fault), ST_OK); /* one never seen */
    struct offsets_seat none[2] = {{.partition = 9}, {.partition = 10}};
    cr_assert_eq(offsets_read(f->db, &f->scope, none, 2, &fault), ST_OK);
    cr_assert_eq(none[0].next_offset, 0);
    cr_assert_eq(none[1].generation, 0);
    cr_assert_eq(none[1].next_offset, OFFSET_UNKNOWN);
    fixture_close(f);
}

/* Seating waits for a zombie's statement and returns what that left. */
Test(offsets, seating_waits_for_a_zombie)
{
    struct fixture *f = fixture_open("off_zombie", 1);
    struct db *other = fixture_connect(f);
    struct fault fault;
    world_exec(&f->world, "BEGIN");
    world_exec(&f->world, "UPDATE partition_offsets SET next_offset = 42");
    struct offsets_seat mine = {.partition = 0};
    /* lock_timeout is 5 s: the first try meets it and is to be tried again. */
    cr_assert_eq(offsets_seat(other, &f->scope, &mine, 1, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "55P03");
    world_exec(&f->world, "COMMIT");
    cr_assert_eq(offsets_seat(other, &f->scope, &mine, 1, &fault), ST_OK);
    cr_assert_eq(mine.next_offset, 42);
    db_close(other);
    fixture_close(f);
}
