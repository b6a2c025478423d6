#!/bin/sh
# A ptxas that never ends for the entries whose names end with $SLOW, and takes others for done.
# Arguments: -v -O3 -arch=NAME INPUT -o OUTPUT.
if grep -q "^\.visible \.entry [a-z_]*$SLOW(" "$4"; then
    while :; do :; done
fi
# The functions of one variant.
variants=$(sed -n 's/^\.visible \.entry \([^(]*\)(.*/\1/p' "$4" | sed 's/\$plain$//' | sort -u | wc -l)
[ "$variants" = 1 ] || exit 1
echo cubin > "$6"
