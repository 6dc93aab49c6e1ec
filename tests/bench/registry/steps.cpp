#include "steps.hpp"

namespace compilecache::bench {
namespace {

// HTTP/1.1, which is faster than the HTTP/2 that curl and the registry would agree on.
constexpr const char* kCurl = "curl -sSf --http1.1 --cacert $CA ";
constexpr const char* kBlob = "$URL/v2/$REPOSITORY/blobs/sha256:";

std::string untar(const std::string& layer) {
  return "mkdir $DST && tar -C $DST --zstd -xf " + layer + " && rm -r $DST.pulled";
}

Step registry_load(const Programs& programs) {
  return {kRegistryLoad, programs.step + " --ca $CA load $URL/$REPOSITORY $DIGEST $DST", "",
          "$DST"};
}

Step get() { return {kGet, std::string(kCurl) + "-o $DST " + kBlob + "$LAYER", "", ""}; }

}  // namespace

std::vector<Step> steps(const Programs& programs) {
  const std::string curl = kCurl;
  std::vector<Step> all = {
      {kLocalLoad, programs.step + " load $STORE $STORED $DST", "", "$DST"},
      registry_load(programs),
      get(),
      {"skopeo copy, tar",
       "SSL_CERT_FILE=$CA skopeo --insecure-policy copy -q docker://$HOST/$REPOSITORY@$DIGEST "
       "dir:$DST.pulled && " +
           untar("$DST.pulled/$LAYER"),
       "", "$DST/torch"},
      {"cp -r", "cp -r $SRC $DST", "", "$DST"},
      {kLocalSave, programs.step + " save $DST $SRC >/dev/null",
       "rm -rf $DST-0 && " + programs.step + " prepare $DST-0", ""},
      {kRegistrySave,
       programs.step + " --ca $CA --spool $SPOOL save $URL/saved/$NUMBER $SRC >/dev/null", "", ""},
      {kPut,
       curl + "-T $STORE/blobs/sha256/$LAYER -H 'Content-Type: application/octet-stream' "
              "\"$PREPARED&digest=sha256:$LAYER\"",
       curl + "-D - -X POST $URL/v2/put/$NUMBER/blobs/uploads/ | tr -d '\\r' | "
              "sed -n \"s#^[Ll]ocation: #$URL#p\"",
       ""},
  };
  if (!programs.oras.empty()) {
    all.push_back({kOras,
                   programs.oras +
                       " pull --no-tty --ca-file $CA -o $DST.pulled $HOST/$REPOSITORY/file:layer "
                       ">/dev/null && " +
                       untar("$DST.pulled/layer.tar.zst"),
                   "", "$DST/torch"});
    all.push_back({"oras push of the layer",
                   "cd $STORE/blobs/sha256 && " + programs.oras +
                       " push --no-tty --ca-file $CA $HOST/pushed/$NUMBER:layer "
                       "$LAYER:application/vnd.oci.image.layer.v1.tar+zstd >/dev/null",
                   "", ""});
  }
  return all;
}

std::vector<Step> crowd_steps(const Programs& programs) {
  const std::string curl = kCurl;
  return {
      registry_load(programs),
      get(),
      // The least that a reader asks for which checks what it gets: the manifest carries the
      // config.
      {kGetBoth,
       curl +
           "-H 'Accept: application/vnd.oci.image.manifest.v1+json' -o $DST.manifest "
           "$URL/v2/$REPOSITORY/manifests/$DIGEST -o $DST " +
           kBlob + "$LAYER",
       "", ""},
  };
}

}  // namespace compilecache::bench
