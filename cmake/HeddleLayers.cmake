# heddle_layer(<folder>...)            libraries of src/<folder>; they link all layers declared before
# heddle_uses(<folder> <library>...)   a library of others that this folder needs
# heddle_libraries(<out>)              every library declared so far
# heddle_libraries_seen(<folder> <out>)  the folder's own library and those below it
#
# src/plan/pipeline becomes heddle_plan_pipeline. A folder that is missing or holds no .cc is skipped.

define_property(GLOBAL PROPERTY HEDDLE_LIBRARIES BRIEF_DOCS "Libraries of the layers so far")
define_property(GLOBAL PROPERTY HEDDLE_FOLDERS BRIEF_DOCS "Folders of the layers so far")

function(heddle_library_name folder out)
  string(REPLACE "/" "_" name heddle_${folder})
  set(${out} ${name} PARENT_SCOPE)
endfunction()

function(heddle_layer)
  heddle_libraries(below)
  foreach(folder IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY HEDDLE_FOLDERS ${folder})
    set_property(GLOBAL PROPERTY HEDDLE_BELOW_${folder} "${below}")
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
    if(sources)
      heddle_library_name(${folder} library)
      get_property(embedded GLOBAL PROPERTY HEDDLE_EMBEDDED_${folder})  # HeddleEmbed.cmake
      add_library(${library} STATIC ${sources} ${embedded})
      target_link_libraries(${library} PUBLIC heddle_options ${below})
      set_property(GLOBAL APPEND PROPERTY HEDDLE_LIBRARIES ${library})
    endif()
  endforeach()
endfunction()

function(heddle_uses folder)
  heddle_library_name(${folder} library)
  if(TARGET ${library})
    target_link_libraries(${library} PUBLIC ${ARGN})
  endif()
endfunction()

function(heddle_libraries out)
  get_property(libraries GLOBAL PROPERTY HEDDLE_LIBRARIES)
  set(${out} ${libraries} PARENT_SCOPE)
endfunction()

function(heddle_libraries_seen folder out)
  get_property(seen GLOBAL PROPERTY HEDDLE_BELOW_${folder})
  heddle_library_name(${folder} library)
  if(TARGET ${library})
    list(APPEND seen ${library})
  endif()
  set(${out} ${seen} PARENT_SCOPE)
endfunction()
