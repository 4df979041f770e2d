# SPDX-License-Identifier: Apache-2.0
# What is handed out: libisochron-core (libc and libm alone, on any processor), libisochron (everything but the command), the command.
set(version_script ${CMAKE_SOURCE_DIR}/cmake/isochron.map)

# iso_library(NAME PARTS layers... LINK libraries...): static and shared, as targets NAME_static and NAME_shared
function(iso_library name)
    cmake_parse_arguments(L "" "" "PARTS;LINK" ${ARGN})
    set(files)
    foreach(part IN LISTS L_PARTS)
        list(APPEND files $<TARGET_OBJECTS:${part}>)
    endforeach()
    string(REPLACE "_" "-" file_name ${name})
    foreach(kind STATIC SHARED)
        string(TOLOWER ${name}_${kind} library)
        add_library(${library} ${kind} ${files})
        target_include_directories(${library} INTERFACE ${CMAKE_SOURCE_DIR}/include)
        target_link_libraries(${library} PUBLIC ${L_LINK})
        set_target_properties(${library} PROPERTIES OUTPUT_NAME ${file_name} VERSION ${PROJECT_VERSION} SOVERSION 0
            LINKER_LANGUAGE C)
    endforeach()
    target_link_options(${name}_shared PRIVATE -Wl,--version-script=${version_script})
    if(NOT ISO_SANITIZE AND NOT ISO_FUZZ)  # a sanitizer's functions come with the program
        target_link_options(${name}_shared PRIVATE -Wl,--no-undefined)
    endif()
    set_property(TARGET ${name}_shared APPEND PROPERTY LINK_DEPENDS ${version_script})
endfunction()

set(core_layers iso_base iso_nn iso_core ${ISO_KERNEL_OBJECTS})
iso_library(isochron_core PARTS ${core_layers} LINK m)
if(NOT ISO_CORE_ONLY)
    iso_library(isochron PARTS ${core_layers} iso_data iso_format iso_job iso_engine
        LINK PkgConfig::YAML PkgConfig::JANSSON ZLIB::ZLIB Threads::Threads m)
    add_executable(isochron $<TARGET_OBJECTS:iso_cli>)
    set_target_properties(isochron PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(isochron PRIVATE isochron_static)
    if(CAIRO_FOUND)
        target_link_libraries(isochron PRIVATE PkgConfig::CAIRO)
    endif()
endif()
