"""What build systems find a shared object by: CMake and pkg-config."""

from __future__ import annotations

from string import Template
from typing import Final

from weft.compiler.machine.bindings.escapes import cmake_literal, pkg_config_text
from weft.compiler.machine.bindings.library import Library

_PKG_CONFIG: Final = Template("""\
libdir=$${pcfiledir}
includedir=$${pcfiledir}

Name: $stem
Description: $prefix, a model compiled by weft
Version: $version
Libs: -L$${libdir} -l$stem -Wl,-rpath,$${libdir}
Cflags: -I$${includedir}
""")

_CMAKE: Final = Template("""\
# find_package($stem CONFIG) with this folder in CMAKE_PREFIX_PATH, or include() of this file,
# any number of times; then target_link_libraries(program PRIVATE $target)
if(NOT TARGET $target)
  add_library($target SHARED IMPORTED)
  set_target_properties($target PROPERTIES
    IMPORTED_LOCATION $location
    INTERFACE_INCLUDE_DIRECTORIES "$${CMAKE_CURRENT_LIST_DIR}")
endif()
""")

_CMAKE_VERSION: Final = Template("""\
# The version is the model's own. A later one will do, but for EXACT and where a range ends.
set(PACKAGE_VERSION $version)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
set(PACKAGE_VERSION_EXACT FALSE)
if(PACKAGE_VERSION VERSION_LESS "$${PACKAGE_FIND_VERSION}")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
elseif(PACKAGE_VERSION VERSION_EQUAL "$${PACKAGE_FIND_VERSION}")
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(PACKAGE_FIND_VERSION_RANGE AND PACKAGE_VERSION VERSION_GREATER "$${PACKAGE_FIND_VERSION_MAX}")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
""")


def pkg_config(library: Library) -> str:
    """A pkg-config file that is beside the library."""
    return _PKG_CONFIG.substitute(
        stem=pkg_config_text(library.stem), prefix=library.prefix, version=library.version
    )


def cmake(library: Library) -> str:
    """A file for CMake's find_package() and include(), which is beside the library."""
    return _CMAKE.substitute(
        stem=cmake_literal(library.stem),
        target=cmake_literal(f"{library.stem}::{library.stem}"),
        location=f'"${{CMAKE_CURRENT_LIST_DIR}}/{cmake_literal(library.name)[1:]}',
    )


def cmake_version(library: Library) -> str:
    """What find_package() compares with the version that it is asked for."""
    return _CMAKE_VERSION.substitute(version=cmake_literal(str(library.version)))
