-- Lets messages of a dependency through to test it: the first of its lane, its newest, and any one, so that neither bad heads
-- nor bad newcomers can keep its breaker open. Returns how many.
--   count: three, or fewer: each time another one of them comes first; any: which one, from 0 to 1
-- needs: BLOCKED, TRIED, digits, count_parked, parked_rows, let_through, write_lane; keys: scheduled
-- gives: let_probe
local function let_probe(number, lane, count, any)
  local first = digits(BLOCKED + number)
  local last = first .. TRIED
  local head = redis.call('ZRANGEBYSCORE', scheduled, first, last, 'LIMIT', 0, 1)[1]
  if not head then
    return 0
  end
  local newest = redis.call('ZRANGE', scheduled, first, first, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  local rank = redis.call('ZRANK', scheduled, head) + math.floor(any * count_parked(number))
  local three = {
    head, newest or redis.call('ZRANGE', scheduled, last, last, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1],
    redis.call('ZRANGE', scheduled, rank, rank)[1],
  }
  local turn = (lane.probes or 0) % 3
  local rows = { three[turn + 1], three[(turn + 1) % 3 + 1], three[(turn + 2) % 3 + 1] }
  lane.probes = (lane.probes or 0) + 1
  write_lane(number, lane)
  local through = let_through(number, rows, count)
  return through > 0 and through or let_through(number, parked_rows(number, 1), 1) -- those were not there any more
end
