# SPDX-License-Identifier: Apache-2.0
# What `make install` copies, and the pkg-config files.

# iso_pkg_config(NAME description what-it-requires what-its-static-library-links)
function(iso_pkg_config ISO_PC_NAME ISO_PC_TEXT ISO_PC_REQUIRES ISO_PC_PRIVATE)
    configure_file(cmake/isochron.pc.in ${CMAKE_BINARY_DIR}/${ISO_PC_NAME}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/${ISO_PC_NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

iso_pkg_config(isochron-core "the pure core of isochron: networks, kernels, protocol; libc and libm alone" "" "-lm")
install(TARGETS isochron_core_shared isochron_core_static)
install(DIRECTORY include/isochron DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(NOT ISO_CORE_ONLY)
    iso_pkg_config(isochron "trains neural networks over machines that are not equally fast" "yaml-0.1 jansson zlib" "-lm -lpthread")
    install(TARGETS isochron isochron_shared isochron_static)
endif()
