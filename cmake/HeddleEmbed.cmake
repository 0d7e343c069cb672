# heddle_embed(<folder> <file> <symbol>)   the text of src/<folder>/<file> as `extern const char <symbol>[]`
#
# Goes before heddle_layer() of the folder, whose library takes the made source in. The text must not hold
# `)embedded"`.

function(heddle_embed folder file symbol)
  set(source ${PROJECT_SOURCE_DIR}/src/${folder}/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  if(text MATCHES "\\)embedded\"")
    message(FATAL_ERROR "${source} cannot be embedded: it holds the end mark")
  endif()
  set(made ${PROJECT_BINARY_DIR}/embedded/${symbol}.cc)
  file(CONFIGURE OUTPUT ${made} @ONLY CONTENT
       "namespace heddle {\nextern const char @symbol@[];\nconst char @symbol@[] = R\"embedded(@text@)embedded\";\n}\n")
  set_property(GLOBAL APPEND PROPERTY HEDDLE_EMBEDDED_${folder} ${made})
endfunction()
