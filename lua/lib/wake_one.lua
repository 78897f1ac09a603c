-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on if messages are left. So no
-- client polls, and a message wakes one of a thousand.
-- needs: keys: wake
-- gives: wake_one
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
  end
end
