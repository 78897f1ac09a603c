-- How many messages a redrive may move back now, by its canary, by the outcomes of those that it has moved back, and by its
-- rate; then, if none, after how many milliseconds it may continue. -1: it has paused, since too few succeed.
--   canary: this many first, and all of them must end before others follow; min_success: the share of acks among the ends
-- needs: now, write_redrive, stop_redrive; keys: states, redrive, redriving
-- gives: room_of_redrive
local POLL = 500 -- milliseconds between two checks of a canary
local SAMPLE = 20 -- ends by which a redrive without a canary is judged
local LOOKS = 1000 -- messages that one check of a canary reads (I9)
local BURST = 1000 -- milliseconds: a rate that was unused for longer is lost

-- Whether a message of the canary has not ended, or may not have: then the next check continues where this one ended, since
-- messages that were not moved back are also in the list. Not every end is counted: a message may be purged or moved.
local function has_open(job, r)
  local ids = redis.call('LRANGE', redrive, r.ended, r.ended + LOOKS - 1)
  local open
  for n, text in ipairs(#ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}) do
    open = open or text and text:find(' redrive=' .. job .. '/', 1, true) and n
  end
  r.ended = r.ended + (open and open - 1 or #ids)
  write_redrive(job, { ended = r.ended })
  return open or #ids > 0 and r.ended < r.position
end

local function room_and_wait(job, r, limit)
  local acked = r.acked - r.acked_before
  local ends = acked + r.died - r.died_before
  local failing = acked / ends < r.min_success -- a product would not be exact: 0.55 * 100 > 55. Not for 0 / 0
  local room = limit
  if r.canary > 0 and r.passed == 0 then
    room = math.min(limit, r.canary - r.moved)
    if room <= 0 and has_open(job, r) then
      return 0, POLL
    elseif room <= 0 and (failing or acked == 0) then
      return 0, nil
    elseif room <= 0 then
      r.passed, room = 1, limit
    end
  elseif failing and ends >= SAMPLE then
    return 0, nil
  end
  if r.rate > 0 then
    local is_far = r.next > now + 1000 / r.rate + 1 -- no step leaves such a time: the clock stepped back
    r.next = is_far and now or math.max(r.next, now - BURST)
    local due = math.floor((now - r.next) * r.rate / 1000) + 1
    if due < 1 then
      return 0, math.ceil(r.next - now)
    end
    room = math.min(room, due)
  end
  return room, 0
end

local function room_of_redrive(job, r, limit, grace)
  local room, wait = room_and_wait(job, r, limit)
  if not wait then
    stop_redrive(job, r, 'paused', 'success', r.canary > 0 and r.passed == 0 and '"its canary"' or '"its min_success"', '')
    return 0, -1
  elseif room == 0 then
    redis.call('ZADD', redriving, now + math.max(wait, grace), job)
  end
  return room, wait
end
