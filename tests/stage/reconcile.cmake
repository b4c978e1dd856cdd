# The reconciler's statements.
add_library(stage_reconcile_fixture STATIC reconcile_fixture.c)
target_link_libraries(stage_reconcile_fixture PRIVATE belfry_flags belfry_test_flags
    PUBLIC belfry_reconcile belfry_store belfry_harness)
target_include_directories(stage_reconcile_fixture PUBLIC ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
function(belfry_stage_reconcile stem)
    belfry_program(stage_${stem} SOURCES ${stem}_test.c LINK stage_reconcile_fixture)
    foreach(test ${ARGN})
        belfry_test(stage_${stem}_${test} LABEL stage PROGRAM stage_${stem} FILTER ${stem}/${test}
            TIMEOUT 120 SERVICES)
    endforeach()
endfunction()
belfry_stage_reconcile(outcome late_ones_raise_the_version_and_keep_the_earlier_look
    batches_of_any_size_agree_with_the_table only_a_dead_token_is_disabled updates_are_hot
    every_row_is_looked_up_by_its_key)
belfry_stage_reconcile(receipt a_batch_belongs_to_one_until_its_lease_ends due_rows_come_by_ticket
    receipts_settle_once_and_only_their_own_ticket without_a_receipt_it_expires_by_age
    registered_again_or_moved_stays_enabled a_pass_reads_its_own_batches_only)
# Lines of issue "The reconciler at full strength": belfry_reconciler_stage(<what> <stem> <test>)
function(belfry_reconciler_stage what stem test)
    belfry_test(reconciler_${what} LABEL stage PROGRAM stage_${stem} FILTER ${stem}/${test} TIMEOUT 120 SERVICES)
endfunction()
belfry_reconciler_stage(drain_offsets outcome moves_and_offsets_go_together)
belfry_reconciler_stage(drain_fence outcome nothing_moves_unless_every_part_is_held)
belfry_reconciler_stage(drain_replays outcome replays_change_nothing)
belfry_reconciler_stage(drain_order outcome any_order_ends_alike)
belfry_reconciler_stage(2_two_outcomes_in_one_batch outcome two_outcomes_of_one_dispatch_in_one_batch)
belfry_reconciler_stage(2_row_changed_meanwhile outcome a_row_changed_meanwhile_is_seen_as_it_is_now)
belfry_reconciler_stage(2_late_sent_between_read_and_finish receipt a_late_sent_keeps_its_batch_in_the_queue)
belfry_reconciler_stage(2_late_sent_in_flight_at_the_finish receipt a_sent_in_flight_is_not_orphaned_by_the_finish)
belfry_reconciler_stage(2_late_sent_while_the_row_is_deleted receipt
    a_sent_after_an_uncommitted_finish_queues_its_batch_anew)
belfry_reconciler_stage(2_drain_and_poll receipt drain_and_poll_race)
belfry_reconciler_stage(2_unsorted_batches outcome unsorted_batches_of_two_connections_do_not_deadlock)
belfry_reconciler_stage(2_dead_tokens_and_registrations outcome dead_tokens_and_registrations_do_not_deadlock)
belfry_reconciler_stage(2_id_handed_out_again outcome an_id_handed_out_again_is_not_the_old_one)
belfry_stage_reconcile(settle the_bound_waits_for_writers_and_never_goes_back a_prepared_transaction_is_seen
    transactions_are_read_before_locks no_row_commits_below_the_bound
    stamped_relations_have_bounds_of_their_own a_stamped_row_keeps_its_sort_key)
belfry_stage_reconcile(outbox every_final_state_is_written_with_its_transition the_version_is_the_one_of_the_code
    text_is_escaped one_process_takes_in_order_until_its_lease_ends a_late_first_version_brings_the_second_again
    what_was_erased_does_not_come_back)
# The statements against a model of their own: stage_model --seed N repeats a sequence.
belfry_program(stage_model SOURCES model_test.c model.c LINK stage_reconcile_fixture)
belfry_test(reconciler_3_model LABEL stage PROGRAM stage_model TIMEOUT 300 SERVICES)
# Off and on compared: it measures what a busy machine changes.
belfry_test(reconciler_settled_cost LABEL stage PROGRAM stage_outbox FILTER outbox/what_it_costs TIMEOUT 180 SERVICES)
set_tests_properties(reconciler_settled_cost PROPERTIES RUN_SERIAL ON)
