#pragma once

#include <map>
#include <string>
#include <vector>

// The layout of one framework's compile cache. The descriptions themselves are data
// (`config/settings.yaml`); users add frameworks there without touching code. They travel to the
// agents inside AgentConfig.
//
// Patterns match paths relative to the framework's directory, '/' between components: `*` matches
// within a component, `?` one character, `**` any number of whole components.

namespace compilecache::frameworks {

struct Framework {
  // "torch": what users write in spec.frameworks and also the top-level folder in archives.
  std::string name;

  // Variables to set on the app's containers; "{directory}" stands for the framework's directory.
  std::map<std::string, std::string> env;

  // Variables that join the framework to a Redis server, where spec.remoteCache.redis names one;
  // "{host}" and "{port}" stand for its. Only the webhook needs them; they do not travel to agents.
  std::map<std::string, std::string> redis_env;

  // Variables that make the framework start cold and keep nothing, for the mode ForceCold. Only the
  // webhook needs them.
  std::map<std::string, std::string> cold_env;

  // Variables for pods whose CompileCache has spec.startKit: they switch on what the framework
  // leaves off although it can be carried from pod to pod. Where its release does not know one, it
  // does nothing. Only the webhook needs them.
  struct KitVariable {
    std::string value;   // as in env
    std::string since;   // "vLLM 0.26"
    std::string brings;  // what is kept by it: "the memory that profiling found to be free"
  };
  std::map<std::string, KitVariable> start_kit;

  // The variable by which a user may already have chosen the directory (TORCHINDUCTOR_CACHE_DIR); a
  // literal value is honoured. Empty: we always choose the framework's directory.
  std::string directory_variable;

  // Leave the framework alone in pods that set that variable themselves, in whatever way: their
  // images bring a cache of their own there, which a mount would hide. Only the webhook needs it.
  bool only_if_unset = false;

  // Frameworks in whose directory this one's lies where its own variable is not set (Triton's in
  // Inductor's). Left alone together with them. Only the webhook needs it.
  std::vector<std::string> part_of;

  // Folders that stand for one key each ("fxgraph/*/*"). A file in such a folder is not new when
  // the head already holds the folder, whatever the file's name. The effect is judged by them.
  std::vector<std::string> entry_directories;

  // Files that stand for one key each where there is no entry directory
  // ("**/torch_aot_compile/*/rank_*/model"). A new one proves a compile.
  std::vector<std::string> entry_files;

  // Files that stand for one key each, too, but may also be written out of an entry that was read:
  // Inductor's hits leave Triton's kernels ("*/__grp__*.json"). They count only where there are no
  // entries. Where a description names no entries at all, every file is one of these.
  std::vector<std::string> derived_files;

  // Files or folders, as in never_pack, that say nothing of how long the app compiled: vLLM's notes
  // on a model's class, written long before it compiles. They are packed.
  std::vector<std::string> not_compiled;

  // Files or folders, as in never_pack, whose files are named by a digest of their content. One
  // that was loaded and is written again is the same, and no new work. PyTorch before 2.13 writes
  // its entries again out of vLLM's artifacts.
  std::vector<std::string> named_by_content;

  // Folders of which each belongs to one rank of a distributed application ("torch_compile_cache/*/
  // rank_*_*"). Folders with one parent are the ranks of one layout. A pod loads those that its
  // place in its group is known to use (frameworks/ranks.hpp).
  std::vector<std::string> rank_directories;

  // Files that are never in an archive, or folders with all that is in them. A pattern of one
  // component matches by name, wherever the file is.
  std::vector<std::string> never_pack;

  // Unfinished while they exist: temporary files and folders ("tmp.*"), only folders with a '/' at
  // the end
  // ("tmp????????/"). One component: a name.
  std::vector<std::string> temporary;

  // A folder that exists only while its neighbours are written (`*_CxxBuild`): files in the same
  // folder whose name starts with the folder's name up to the pattern's fixed suffix are
  // unfinished.
  std::vector<std::string> build_directories;

  // A folder (first) is unfinished until it holds a file of that name (second): Triton's key
  // folders.
  struct Completion {
    std::string directory;
    std::string marker;
  };
  std::vector<Completion> completions;

  // Files that must be whole ELF files to be packed ("*.so"). One component: a name.
  std::vector<std::string> elf_files;

  // Files that are one zstd or zlib stream each, of which a part is of no use ("*-cache"): neither
  // packed nor loaded unless the stream ends (frameworks/stream.hpp).
  std::vector<std::string> stream_files;

  // Folders whose files are of use only together ("torch_aot_compile/*"): they all stay in an
  // archive as long as one of them is read. Where several match, the deepest counts. Entry
  // directories and folders with a completion need not be named here.
  std::vector<std::string> unit_directories;

  // Machine code that runs on every CPU of its architecture ("**/cuda_utils*.so"): its compiler
  // does not compile for the host's. Other code for CPUs is loaded only on hosts of the kind for
  // which it was compiled (frameworks/cpu_code.hpp).
  std::vector<std::string> portable_files;

  // Variables that change for which CPU the framework compiles (ATEN_CPU_CAPABILITY). Only the
  // webhook needs them; their values travel to agents as AgentConfig::cpu_variables.
  std::vector<std::string> cpu_variables;
  // Files that say which of the files beside them holds what ("**/*.nbi": f.nbi of f.1.nbc,
  // f.2.nbc), and are written before those. They are packed together, and replace what the archive
  // has of them: beside another pod's f.2.nbc this pod's f.nbi would lead to wrong code.
  std::vector<std::string> index_files;

  // Files with results of measuring, such as "startup_plan/**", the memory that was free. They are
  // right only if nothing was compiled meanwhile. Pods that loaded all they needed pack them, and
  // they are loaded only if such a pod has saved them.
  std::vector<std::string> only_from_warm;

  // Files of which all ranks of a group must have the same or none ("flashinfer_autotune/**"): a
  // rank that finds one skips a collective operation in which the others wait for it. Neither
  // packed nor loaded by pods of a group, which save one by one.
  std::vector<std::string> must_agree;

  // JSON files in which the framework notes what its own key was made of
  // ("torch_compile_cache/**/cache_key_factors.json"): when nothing that was loaded is used, they
  // show why. They are never in an archive, since they hold values of variables, perhaps secret
  // ones; names with keyed digests are (frameworks/factors.hpp).
  std::vector<std::string> key_factors;

  // Parts of the key that this framework adds ("DriverVersion" for the CUDA driver's cache).
  std::vector<std::string> key_parts;

  bool operator==(const Framework&) const = default;
};

inline bool operator==(const Framework::KitVariable& a, const Framework::KitVariable& b) {
  return a.value == b.value && a.since == b.since && a.brings == b.brings;
}

inline bool operator==(const Framework::Completion& a, const Framework::Completion& b) {
  return a.directory == b.directory && a.marker == b.marker;
}

}  // namespace compilecache::frameworks
