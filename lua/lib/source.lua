-- The index that a claim takes from.
-- needs: keys: ready, dead, expired; args: part
-- gives: source
local source = part == 'dead' and dead or part == 'expired' and expired or ready
