#!/usr/bin/env bash
# The shop, from its model to answers: run by `make demo`, with keyplan on the PATH.
set -euo pipefail
examples=$(cd "$(dirname "$0")" && pwd)
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
cp "$examples/shop.yaml" .

# Shows a command as it would be typed, and runs it.
run() {
  local shown="" word
  for word in "$@"; do
    [[ $word == *' '* ]] && word="'$word'"
    shown+=" $word"
  done
  printf '\n\033[1m$%s\033[0m\n' "$shown"
  "$@"
}

user=11111111-1111-4111-8111-111111111111
order=01JZZZZZZZ0000000000000001
echo '[{"line": 1, "product": "lamp-7", "quantity": 2}]' >items.json

run keyplan design shop.yaml --engine sqlite
run keyplan apply shop.yaml sqlite:shop.db --yes
run keyplan load shop.yaml sqlite:shop.db --generate --scale 0.00005 --until "$(date -u +%F)"
run keyplan run shop.yaml sqlite:shop.db list_product sku=lamp-7 name='desk lamp' description='It shines.' category=light price=19.90
run keyplan run shop.yaml sqlite:shop.db register user_id=$user email=ann@example.com name=Ann
run keyplan run shop.yaml sqlite:shop.db place_order order_id=$order user=$user total=39.80 items=@items.json
run keyplan run shop.yaml sqlite:shop.db order_page order_id=$order
run keyplan run shop.yaml sqlite:shop.db order_summary user_id=$user
run keyplan run shop.yaml sqlite:shop.db search_products words=lamp
run keyplan run shop.yaml sqlite:shop.db orders_today day="$(date -u +%F)"
run keyplan verify shop.yaml sqlite:shop.db
run keyplan design shop.yaml --engine dynamodb
