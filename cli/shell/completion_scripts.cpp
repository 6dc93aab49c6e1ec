#include "cli/shell/completion_scripts.hpp"

namespace compilecache::cli {
namespace {

constexpr char kBash[] = R"(# bash completion of kubectl-compilecache and kubectl-cc
_kubectl_compilecache() {
  local word words=() lines=() bits joins=
  # Bash splits at "=", the program does not.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word == "=" && ${#words[@]} -gt 0 ]]; then
      words[-1]+="="
      joins=1
    elif [[ -n $joins ]]; then
      words[-1]+=$word
      joins=
    else
      words+=("$word")
    fi
  done
  mapfile -t lines < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
  COMPREPLY=()
  [[ ${#lines[@]} -gt 0 ]] || return
  bits=${lines[-1]#:}
  unset 'lines[-1]'
  for word in "${lines[@]}"; do COMPREPLY+=("${word%%$'\t'*}"); done
  if ((bits & 2)); then compopt -o nospace 2>/dev/null; fi
  if ((!(bits & 4))); then compopt -o default 2>/dev/null; fi
}
complete -F _kubectl_compilecache kubectl-compilecache kubectl-cc
)";

constexpr char kZsh[] = R"(#compdef kubectl-compilecache kubectl-cc
# zsh completion of kubectl-compilecache and kubectl-cc
_kubectl_compilecache() {
  local -a lines candidates nospace
  local bits line
  lines=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  bits=${lines[-1]#:}
  lines[-1]=()
  [[ $PREFIX == --*=* ]] && compset -P '*='
  for line in $lines; do
    candidates+=("${${line%%$'\t'*}//:/\\:}${${(M)line:#*$'\t'*}:+:${line#*$'\t'}}")
  done
  ((bits & 2)) && nospace=(-S '')
  if (($#candidates)); then
    _describe -V completions candidates "${nospace[@]}"
  elif ((!(bits & 4))); then
    _files
  fi
}
compdef _kubectl_compilecache kubectl-compilecache kubectl-cc
)";

constexpr char kFish[] = R"(# fish completion of kubectl-compilecache and kubectl-cc
function __kubectl_compilecache_complete
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l lines ($program __complete $words "$token" 2>/dev/null)
    test (count $lines) -gt 0; or return
    set -l bits (string sub -s 2 -- $lines[-1])
    set -e lines[-1]
    set -l prefix (string match -r -- '^--[^=]*=' "$token")
    for line in $lines
        echo "$prefix$line"
    end
    if test (count $lines) -eq 0; and test (math "floor($bits / 4) % 2") -eq 0
        __fish_complete_path "$token"
    end
end
complete -c kubectl-compilecache -f -a '(__kubectl_compilecache_complete)'
complete -c kubectl-cc -f -a '(__kubectl_compilecache_complete)'
)";

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return "";
}

}  // namespace compilecache::cli
