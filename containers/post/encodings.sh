#!/usr/bin/env bash
# Put gpt-oss's encoding into the image: servers load it when they start, and a node has no network.
#   encodings.sh
# openai_harmony, which LMDeploy and vLLM bring, downloads it into TIKTOKEN_RS_CACHE_DIR; environment.sh names the folder.
# Without a network at the build it is left out and said so: other models do not need it.
set -euo pipefail
export TIKTOKEN_RS_CACHE_DIR=/opt/kgqa/encodings
mkdir -p "$TIKTOKEN_RS_CACHE_DIR"
for python in /opt/kgqa/venv/bin/python /usr/bin/python3; do
  "$python" -c 'import openai_harmony' 2>/dev/null || continue
  if "$python" -c 'import openai_harmony as h; h.load_harmony_encoding(h.HarmonyEncodingName.HARMONY_GPT_OSS)'; then
    echo "gpt-oss's encoding is in $TIKTOKEN_RS_CACHE_DIR"
    exit 0
  fi
done
echo "WITHOUT gpt-oss's encoding: its servers will try to download it when they start" >&2
