-- When messages that are sent are due, and when they expire.
local AT_ONCE = 0.5 -- the time to live of a message that has expired: less than a millisecond

-- The time to live of a message: the sender's, within the queue's bounds. As in Artemis, a default is for messages without
-- one, and then the bounds do not apply.
--   allowed: "DELAY MIN MAX" in milliseconds, "-" where unset; "never": messages do not expire
local function allowed_ttl(asked, allowed)
  if allowed == 'never' then
    return 0
  end
  local default, least, most = allowed:match('^(%S+) (%S+) (%S+)$')
  default, least, most = Values.span(default), Values.span(least), Values.span(most)
  if default then
    return asked > 0 and asked or default
  elseif asked == 0 then
    return most or least or 0
  end
  return math.min(math.max(asked, least or asked), most or math.huge)
end

-- The delay and the time to live of messages, from now on, where there is a time (Send.add) or a default of the queue.
function Ttl.spans(q, delay, ttl, allowed)
  if delay < 0 then
    delay = math.max(0, -delay - q.now)
  end
  if ttl < 0 then
    ttl = math.max(-ttl - q.now, AT_ONCE)
  end
  return delay, allowed and allowed_ttl(ttl, allowed) or ttl
end

-- Whether a message has expired before it is sent.
function Ttl.is_past(q, ttl)
  return ttl < 0 and -ttl <= q.now
end
