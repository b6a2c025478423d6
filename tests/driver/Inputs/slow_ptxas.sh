#!/bin/sh
# A ptxas that never ends for the entries whose names end with $SLOW, and takes others for done.
# Arguments: -v -O3 -arch=NAME INPUT -o OUTPUT.
if grep -q "^\.visible \.entry [a-z_]*$SLOW(" "$4"; then
    while :; do :; done
fi
[ "$(grep -c '^\.visible \.entry' "$4")" = 1 ] || exit 1
echo cubin > "$6"
