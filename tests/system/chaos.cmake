# The dispatcher under faults: the crash matrix, frozen workers, storms, outages, a provider that is away.
add_library(belfry_chaos STATIC chaos.c)
target_link_libraries(belfry_chaos PRIVATE belfry_flags belfry_test_flags PUBLIC belfry_ledger)
target_compile_definitions(belfry_chaos PRIVATE
    BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BUILD_DIR="${PROJECT_BINARY_DIR}")
belfry_program(system_chaos_matrix SOURCES chaos_matrix_test.c LINK belfry_chaos)
belfry_system(dispatcher_2_crash_matrix system_chaos_matrix dispatcher/crash_matrix 600)
belfry_program(system_chaos_faults SOURCES chaos_faults_test.c LINK belfry_chaos)
foreach(fault frozen rebalance_storm postgres_restart sessions_terminated broker_restart provider_hanging
        provider_reset provider_garbage)
    belfry_system(dispatcher_3_${fault} system_chaos_faults dispatcher/${fault} 400)
endforeach()
belfry_program(system_chaos_down SOURCES chaos_down_test.c LINK belfry_chaos)
belfry_system(dispatcher_4_provider_down system_chaos_down dispatcher/provider_down 400)
foreach(program system_chaos_matrix system_chaos_faults system_chaos_down)
    add_dependencies(${program} belfry-dispatcher belfry-dispatcher-crash belfry-reconciler belfry-simulator)
endforeach()
